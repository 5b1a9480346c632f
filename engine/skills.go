package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/internal/trust"
	"github.com/everturn/everturn/workflows/turn"
)

// Skills reads the skills of a configuration, and says which folders hold no usable one. Of a trusted workspace, the
// skills come first.
func Skills(cfg config.Config) (skills.Set, []skills.Problem, error) {
	sources, outside := workspaceSkills(cfg)
	for _, s := range cfg.Skills.Sources {
		sources = append(sources, skills.Source{Path: s.Path, Recursive: s.Recursive})
	}
	all, problems, err := skills.Read(sources)
	all = slices.DeleteFunc(all, func(s skills.Skill) bool { return slices.Contains(cfg.Skills.Deny, s.Name) })
	return skills.Set{All: all, Tokens: cfg.Prompt.SkillsTokens, Ratio: cfg.Prompt.SkillsRatio},
		append(outside, problems...), err
}

// workspaceSkills returns the folders of a trusted workspace that may hold skills, and those that are links out of it.
func workspaceSkills(cfg config.Config) (sources []skills.Source, outside []skills.Problem) {
	if !trustsWorkspace(cfg) {
		return nil, nil
	}
	workspace := cfg.Runtime.Workspace
	for _, folder := range []string{".agents/skills", ".claude/skills"} {
		s := skills.Source{Path: filepath.Join(workspace, folder), Recursive: true, Optional: true}
		if _, err := os.Stat(s.Path); err == nil && !trust.Inside(workspace, s.Path) {
			outside = append(outside, skills.Problem{Path: s.Path, Message: "it is a link out of the workspace"})
			continue
		}
		sources = append(sources, s)
	}
	return sources, outside
}

// trustsWorkspace reports whether the workspace's authors may instruct the agent.
func trustsWorkspace(cfg config.Config) bool {
	t := cfg.Runtime.TrustWorkspace
	return t != nil && *t
}

// openSkills reads the skills and the workspace's AGENTS.md, and adds local/activate_skill if there are skills.
func (e *Engine) openSkills(context.Context) error {
	set, problems, err := Skills(e.cfg)
	if err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	for _, p := range problems {
		e.log.Warn("a skill is left out", "path", p.Path, "problem", p.Message)
	}
	e.skills = set
	if e.projectWords, err = projectWords(e.cfg); err != nil {
		e.log.Warn(projectFile+" is left out", "error", err)
	}
	if len(set.All) == 0 {
		return nil
	}
	return registerSkills(e.tools, set.All)
}

// projectFile is the file with which a project instructs agents (agents.md), and maxProjectFile how much of it the
// prompt gets, in bytes.
const (
	projectFile    = "AGENTS.md"
	maxProjectFile = 32 << 10
)

// projectWords returns the part of the system prompt with the AGENTS.md of a trusted workspace.
func projectWords(cfg config.Config) (string, error) {
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

// readProjectFile reads the beginning of a workspace's AGENTS.md. A link is followed within the workspace, and only to
// another Markdown file.
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

// registerSkills adds local/activate_skill, with which the model reads skills that were not selected for its turn.
func registerSkills(r *tools.Registry, all []skills.Skill) error {
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
	name := strings.TrimPrefix(turn.ActivateSkill, tools.Local+"/")
	return tools.Add(r, name, "Read the instructions of a skill that fits the request, before you do the work. "+
		"The skills:"+lines.String(),
		func(_ context.Context, in input) (string, error) {
			s, ok := byName[in.Name]
			if !ok {
				return "", fmt.Errorf("there is no skill %q", printable.Line(in.Name, 60))
			}
			return s.Content(), nil
		}, tools.LocalActivity(), tools.Risk(turn.RiskLow), tools.ReadOnly(), tools.Values("name", names...))
}
