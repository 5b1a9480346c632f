package adapters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/internal/trust"
	"github.com/everturn/everturn/workflows/turn"
)

// Skills reads the configured skills. Those of a trusted workspace come first. It also returns a problem for each
// folder that holds no usable skill.
func Skills(cfg config.Config) (skills.Set, []skills.Problem, error) {
	sources, outside := skillSources(cfg)
	all, problems, err := skills.Read(sources)
	return skills.Set{All: all, Tokens: cfg.Prompt.SkillsTokens}, append(outside, problems...), err
}

// skillSources returns the folders that may hold skills: those of a trusted workspace, and then the configured ones. It
// returns a problem for each folder of the workspace that is a link out of it, because the user's trust does not cover
// the link's target.
func skillSources(cfg config.Config) (sources []skills.Source, outside []skills.Problem) {
	workspace, own := cfg.Runtime.Workspace, []string{".agents/skills", ".claude/skills"}
	if !trustsWorkspace(cfg) {
		own = nil
	}
	for _, folder := range own {
		s := skills.Source{Path: filepath.Join(workspace, folder), Optional: true}
		if _, err := os.Stat(s.Path); err == nil && !trust.Inside(workspace, s.Path) {
			outside = append(outside, skills.Problem{Path: s.Path, Message: "it is a link out of the workspace"})
			continue
		}
		sources = append(sources, s)
	}
	for _, s := range cfg.Skills.Sources {
		sources = append(sources, skills.Source{Path: s.Path})
	}
	return sources, outside
}

// trustsWorkspace reports whether the workspace's authors may instruct the agent.
func trustsWorkspace(cfg config.Config) bool {
	t := cfg.Runtime.TrustWorkspace
	return t != nil && *t
}

// Instructions reads what instructs the agent besides its configuration: skills, and the AGENTS.md of a trusted
// workspace.
type Instructions struct {
	cfg     config.Config
	tools   *tools.Registry
	secrets *redact.Redactor
	log     *slog.Logger
	current atomic.Pointer[Instructed] // never nil
	stamp   string                     // changes when a file changes; only Refresh uses it
}

// Instructed is what was read from skills and AGENTS.md, without the worker's secrets.
type Instructed struct {
	Skills skills.Set
	// Project is the part of the system prompt from a trusted workspace's AGENTS.md; it may be empty.
	Project  string
	problems []skills.Problem // of files that cannot be used
}

// OpenInstructions reads the skills and the workspace's AGENTS.md, and adds local/activate_skill to the tools if there
// are skills. The error is config.ErrInvalid if the skills cannot be read.
func OpenInstructions(cfg config.Config, r *tools.Registry, secrets *redact.Redactor, log *slog.Logger) (*Instructions,
	error) {
	i := &Instructions{cfg: cfg, tools: r, secrets: secrets, log: log, stamp: stampInstructions(cfg)}
	i.current.Store(&Instructed{})
	if err := i.read(); err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	return i, nil
}

// Load returns what was read last.
func (i *Instructions) Load() Instructed { return *i.current.Load() }

// Refresh reads the skills and AGENTS.md again if they have changed. Turns that begin afterwards use them. If the
// skills cannot be read, it logs the error, those in use stay, and the next change is awaited. It is not safe for
// concurrent use.
func (i *Instructions) Refresh() {
	stamp := stampInstructions(i.cfg)
	if stamp == i.stamp {
		return
	}
	i.stamp = stamp
	if err := i.read(); err != nil {
		i.log.Warn("the changed skills cannot be read; those in use stay", "error", err)
		return
	}
	i.log.Info("skills and "+projectFile+" were read again", "skills", len(i.Load().Skills.All))
}

// stampInstructions returns a text that changes when the skills or the AGENTS.md of the configuration change.
func stampInstructions(cfg config.Config) string {
	sources, outside := skillSources(cfg)
	var b strings.Builder
	fmt.Fprintln(&b, skills.Stamp(sources), outside)
	if trustsWorkspace(cfg) {
		skills.StampFile(&b, filepath.Join(cfg.Runtime.Workspace, projectFile))
	}
	return b.String()
}

// read reads the skills and the workspace's AGENTS.md for the turns that begin from now on. It logs problems
// that it has not logged before. If the skills cannot be read, it changes nothing.
func (i *Instructions) read() error {
	set, problems, err := Skills(i.cfg)
	if err != nil {
		return err
	}
	project, err := projectInstructions(i.cfg)
	if err != nil {
		problems = append(problems, skills.Problem{Path: projectFile, Message: err.Error()})
	}
	for _, p := range problems {
		if !slices.Contains(i.Load().problems, p) {
			i.log.Warn("a file with instructions is left out", "path", p.Path, "problem", p.Message)
		}
	}
	for n, s := range set.All {
		set.All[n].Description, set.All[n].Body = i.secrets.String(s.Description), i.secrets.String(s.Body)
	}
	i.current.Store(&Instructed{Skills: set, problems: problems, Project: i.secrets.String(project)})
	return registerSkills(i.tools, set.All)
}

// projectFile is the file with a project's instructions for agents (https://agents.md). The prompt contains at most its
// first maxProjectFile bytes.
const (
	projectFile    = "AGENTS.md"
	maxProjectFile = 32 << 10
)

// projectInstructions returns the part of the system prompt with the AGENTS.md of a trusted workspace, or "" if the
// workspace is not trusted or has no such file.
func projectInstructions(cfg config.Config) (string, error) {
	if !trustsWorkspace(cfg) {
		return "", nil
	}
	b, err := readProjectFile(cfg.Runtime.Workspace)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the project's instructions: %w", err)
	}
	note := ""
	if len(b) > maxProjectFile {
		b, note = b[:maxProjectFile], "\n[the rest of the file is left out]"
	}
	text := printable.Sanitize(strings.ToValidUTF8(string(b), string(utf8.RuneError)))
	return "\n\n# Instructions of the project (" + projectFile + ")\n\n" + strings.TrimSpace(text) + note, nil
}

// readProjectFile returns the beginning of a workspace's AGENTS.md, one byte more than maxProjectFile if the file is
// longer. It follows a link only to a Markdown file in the workspace, so that no other file gets into the prompt.
func readProjectFile(workspace string) ([]byte, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(projectFile, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait for its writer
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	target, err := filepath.EvalSymlinks(filepath.Join(workspace, projectFile))
	if err == nil && filepath.Ext(target) != ".md" {
		err = errors.New("it is a link to a file that is not Markdown")
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxProjectFile+1))
}

// maxSkillLines bounds the list of skills in the description of local/activate_skill, in bytes.
const maxSkillLines = 8 << 10

// registerSkills adds or replaces the tool local/activate_skill, with which the model reads a skill that was not
// selected for its turn. Without skills, it removes the tool. The tool's description lists as many skills as fit, but
// the tool accepts the names of all. A turn that began before a change knows the earlier names, and reads the skills as
// they are now.
func registerSkills(r *tools.Registry, all []skills.Skill) error {
	name := strings.TrimPrefix(turn.ActivateSkill, tools.Local+"/")
	if len(all) == 0 {
		r.Remove(name)
		return nil
	}
	byName := map[string]skills.Skill{}
	var names []any
	var lines strings.Builder
	for _, s := range all {
		byName[s.Name] = s
		names = append(names, s.Name)
		if line := "\n- " + s.Name + ": " + turn.Truncate(s.Description, 300); lines.Len()+len(line) <= maxSkillLines {
			lines.WriteString(line)
		}
	}
	type input struct {
		Name string `json:"name" jsonschema:"the skill's name"`
	}
	return tools.Add(r, name, "Read the instructions of a skill that fits the request, before you do the work. "+
		"The skills:"+lines.String(),
		func(_ context.Context, in input) (string, error) {
			s, ok := byName[in.Name]
			if !ok {
				return "", fmt.Errorf("there is no skill %q", printable.Line(in.Name, 60))
			}
			return s.Content(), nil
		}, tools.LocalActivity(), tools.Risk(turn.RiskLow), tools.ReadOnly(), tools.Values("name", names...), tools.Replaceable())
}
