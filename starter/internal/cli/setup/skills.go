package setup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/everturn/everturn/internal/adapters"
	"github.com/everturn/everturn/internal/skills"
	"github.com/everturn/everturn/starter/internal/cli/app"
	"github.com/everturn/everturn/workflows/turn"
)

// Skills returns the commands for skills.
func Skills(a *app.App) *cobra.Command {
	cmd := app.Parent("skills", "List, check and explain skills: instructions for the model",
		skillsList(a), skillsShow(a), skillsCheck(a), skillsExplain(a))
	cmd.Long = `List, check and explain skills: instructions for the model in folders with a SKILL.md, in the format
of agentskills.io. [[skills.sources]] in agent.toml names the folders. A turn begins with the
skills that fit its request; the model reads others with local/activate_skill. The commands read the
folders as they are now; a worker sees a change within seconds.`
	cmd.Example = `  everturn skills explain "Make a release"
  everturn skills check skills/release`
	return cmd
}

// readSkills returns the configured skills. It prints a note for each skill that cannot be used.
func readSkills(a *app.App) (skills.Set, error) {
	loaded, err := a.Load()
	if err != nil {
		return skills.Set{}, err
	}
	set, problems, err := adapters.Skills(loaded.Config)
	if err != nil {
		return set, app.Usage("%v", err)
	}
	for _, p := range problems {
		a.Note("%s", app.Line(p.String(), 400))
	}
	if len(set.All) == 0 {
		a.Note("there are no skills: name a folder in [[skills.sources]], or trust this folder with `everturn trust`")
	}
	return set, nil
}

// skillsList returns the command that lists the skills.
func skillsList(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the skills of this configuration",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			set, err := readSkills(a)
			if err != nil {
				return err
			}
			return app.PrintList(a.Out, output, set.All, func() error {
				rows := make([][]string, len(set.All))
				for i, s := range set.All {
					rows[i] = []string{s.Name, strings.Join(s.Tags, " "), strconv.FormatInt(turn.TokensOf(len(s.Body)), 10),
						app.Line(s.Description, 100)}
				}
				return a.Table([]string{"SKILL", "TAGS", "TOKENS", "DESCRIPTION"}, rows)
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// skillsShow returns the command that shows one skill.
func skillsShow(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "show <skill>",
		Short: "Show a skill as the model reads it with local/activate_skill",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := readSkills(a)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(set.All, func(s skills.Skill) bool { return s.Name == args[0] })
			if i < 0 {
				return app.Usage("there is no skill %s; `everturn skills list` shows them", app.Line(args[0], 60))
			}
			s := set.All[i]
			for _, w := range s.Warnings {
				a.Note("%s", app.Line(w, 300))
			}
			fmt.Fprintln(a.Out, app.Printable(s.Content()))
			return nil
		},
	}
}

// skillsCheck returns the command that checks skills.
func skillsCheck(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check [folder]...",
		Short: "Check the skills of folders, or those of this configuration",
		Long: `Check the skills of folders, or those of this configuration. A folder is one skill's, or one with
skills in it. The exit code is 1 if a skill cannot be used; warnings do not change it.`,
		RunE: func(_ *cobra.Command, args []string) error {
			found, problems, err := skillsToCheck(a, args)
			if err != nil {
				return err
			}
			report := []skillReport{}
			for _, s := range found {
				report = append(report, skillReport{Path: filepath.Join(s.Folder, skills.File), Skill: s.Name, Usable: true,
					Messages: s.Warnings})
			}
			for _, p := range problems {
				report = append(report, skillReport{Path: p.Path, Messages: []string{p.Message}})
			}
			err = app.PrintList(a.Out, output, report, func() error {
				for _, r := range report {
					fmt.Fprintf(a.Out, "%s: %s\n", app.Line(r.Path, 300), cmp.Or(app.Line(strings.Join(r.Messages, "; "), 600), "ok"))
				}
				return nil
			})
			if err == nil && len(problems) > 0 {
				err = fmt.Errorf("%d of %d skills cannot be used", len(problems), len(report))
			}
			return err
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// skillReport is the result of checking one skill, as JSON.
type skillReport struct {
	Path     string   `json:"path"`
	Skill    string   `json:"skill,omitempty"`
	Usable   bool     `json:"usable"`
	Messages []string `json:"messages,omitempty"` // warnings, or why the skill cannot be used
}

// skillsToCheck returns the usable skills in the folders, and the problems of the others. Without folders it reads the
// configured skills.
func skillsToCheck(a *app.App, folders []string) ([]skills.Skill, []skills.Problem, error) {
	if len(folders) == 0 {
		loaded, err := a.Load()
		if err != nil {
			return nil, nil, err
		}
		set, problems, err := adapters.Skills(loaded.Config)
		if err != nil {
			err = app.Usage("%v", err)
		}
		return set.All, problems, err
	}
	var sources []skills.Source
	for _, folder := range folders {
		info, err := os.Stat(folder)
		if err != nil {
			return nil, nil, app.Usage("%v", err)
		}
		if !info.IsDir() {
			return nil, nil, app.Usage("%s is a file; name the folder that it is in", app.Line(folder, 200))
		}
		sources = append(sources, skills.Source{Path: folder})
	}
	found, problems, err := skills.Read(sources)
	if err == nil && len(found)+len(problems) == 0 {
		err = errors.New("there is no " + skills.File + " in these folders")
	}
	if err != nil {
		err = app.Usage("%v", err)
	}
	return found, problems, err
}

// skillsExplain returns the command that explains the selection of skills.
func skillsExplain(a *app.App) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "explain <request>",
		Short: "Show which skills a turn with this request would get, and why",
		Long: `Show which skills a turn with this request would get, and why. The name of a skill in the request
counts 1, one of its tags (metadata.tags) 0.4, and one of its keywords (metadata.keywords, or the
longer words of its description) 0.2. The three best are selected, within the budget of tokens.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			set, err := readSkills(a)
			if err != nil {
				return err
			}
			ranked := skills.Rank(args[0], set.All)
			explained := make([]explainedSkill, len(ranked))
			chosen := skills.Choose(ranked, set.Tokens)
			for i, r := range ranked {
				explained[i] = explainedSkill{Name: r.Name, Points: r.Score.Points(), Score: r.Score}
				if i < len(chosen) { // chosen has the first skills of ranked
					explained[i].Part, explained[i].Tokens = chosen[i].Part, chosen[i].Tokens
				}
			}
			return app.PrintList(a.Out, output, explained, func() error {
				rows := make([][]string, len(explained))
				for i, e := range explained {
					rows[i] = []string{e.Name, fmt.Sprintf("%.1f", e.Points), app.Line(e.why(), 80),
						cmp.Or(strings.ReplaceAll(string(e.Part), "_", " "), "-"), strconv.Itoa(e.Tokens)}
				}
				return a.Table([]string{"SKILL", "SCORE", "BECAUSE OF", "IN THE PROMPT", "TOKENS"}, rows)
			})
		},
	}
	app.OutputFlag(cmd, &output, app.OutputText, app.OutputJSON, app.OutputJSONL)
	return cmd
}

// explainedSkill is a skill's score for a request, as JSON.
type explainedSkill struct {
	Name   string       `json:"name"`
	Points float64      `json:"points"`
	Score  skills.Score `json:"score"`
	Part   skills.Part  `json:"part,omitempty"` // empty: not selected
	Tokens int          `json:"tokens"`         // in the prompt
}

// why names the parts of the skill that the request contains.
func (e explainedSkill) why() string {
	var why []string
	if e.Score.Name {
		why = append(why, "its name")
	}
	if e.Score.Tag != "" {
		why = append(why, "tag "+e.Score.Tag)
	}
	if e.Score.Keyword != "" {
		why = append(why, "keyword "+e.Score.Keyword)
	}
	return cmp.Or(strings.Join(why, ", "), "-")
}
