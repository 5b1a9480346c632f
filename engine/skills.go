package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/internal/printable"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/workflows/turn"
)

// Skills reads the skills of a configuration, and says which folders hold no usable one. Of a trusted workspace, the
// skills come first.
func Skills(cfg config.Config) (skills.Set, []skills.Problem, error) {
	var sources []skills.Source
	if cfg.Runtime.TrustWorkspace {
		for _, folder := range []string{".agents/skills", ".claude/skills"} {
			sources = append(sources, skills.Source{Path: filepath.Join(cfg.Runtime.Workspace, folder), Recursive: true,
				Optional: true})
		}
	}
	for _, s := range cfg.Skills.Sources {
		sources = append(sources, skills.Source{Path: s.Path, Recursive: s.Recursive})
	}
	all, problems, err := skills.Read(sources)
	all = slices.DeleteFunc(all, func(s skills.Skill) bool { return slices.Contains(cfg.Skills.Deny, s.Name) })
	return skills.Set{All: all, Tokens: cfg.Prompt.SkillsTokens, Ratio: cfg.Prompt.SkillsRatio}, problems, err
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
		return err
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
	if !cfg.Runtime.TrustWorkspace {
		return "", nil
	}
	b, err := files.ReadFile(cfg.Runtime.Workspace, projectFile, fileRules(cfg, nil), maxProjectFile+1)
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
