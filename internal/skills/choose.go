package skills

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// MaxChosen is the largest number of skills whose text a turn gets.
const MaxChosen = 3

// Tokens estimates the tokens of a text: four bytes each.
func Tokens(text string) int { return (len(text) + 3) / 4 }

// Part is how much of a chosen skill's body the prompt has.
type Part string

// The parts of a body, from all of it to nothing.
const (
	Whole      Part = "whole"
	NoExamples Part = "no_examples"
	Checklists Part = "checklists" // only its checklists
	Dropped    Part = "dropped"    // the skill is not in the prompt
)

// Chosen is a skill of a turn's prompt, or one that was dropped because the budget had no room for it.
type Chosen struct {
	Ranked
	Part   Part `json:"part"`
	Tokens int  `json:"tokens"` // estimated
	text   string
}

// Choice is the selection for a turn, in the order of the scores.
type Choice []Chosen

// Set is what a turn's skills are chosen from.
type Set struct {
	All []Skill
	// Tokens bounds the chosen skills in the prompt; Ratio does as a part of the model's context window, if that is known.
	Tokens int
	Ratio  float64
}

// Choose returns the skills for a request: see Choose. context is the model's context window in tokens, 0 if it is not
// known. A skill that names its tools is left out if the turn has none of them.
func (s Set) Choose(request string, context int64, tools []turn.Tool) Choice {
	usable := slices.DeleteFunc(slices.Clone(s.All), func(skill Skill) bool {
		return len(skill.AllowedTools) > 0 &&
			!slices.ContainsFunc(tools, func(t turn.Tool) bool { return allows(skill.AllowedTools, t) })
	})
	budget := s.Tokens
	if context > 0 {
		budget = min(budget, int(float64(context)*s.Ratio))
	}
	return Choose(Rank(request, usable), budget)
}

// Choose returns the highest-ranked skills that fit the request at all, MaxChosen at most, with their bodies cut to the
// budget, in tokens. If the bodies exceed it, they lose their examples first, and then everything but checklists,
// each beginning with the lowest-ranked skill; then whole skills are dropped.
func Choose(ranked []Ranked, budget int) Choice {
	var out Choice
	for _, r := range ranked {
		if r.Score.Tenths > 0 && len(out) < MaxChosen {
			out = append(out, Chosen{Ranked: r}.cut(Whole))
		}
	}
	for _, part := range []Part{NoExamples, Checklists, Dropped} {
		for i := len(out) - 1; i >= 0 && out.Tokens() > budget; i-- {
			out[i] = out[i].cut(part)
		}
	}
	return out
}

// Tokens estimates the tokens that the choice takes in the prompt.
func (c Choice) Tokens() int { return Tokens(c.Prompt()) }

func (c Chosen) cut(part Part) Chosen {
	c.Part = part
	switch part {
	case Whole:
		c.text = c.Body
	case NoExamples:
		c.text = withoutExamples(c.Body)
	case Checklists:
		c.text = checklists(c.Body)
	case Dropped:
		c.text, c.Tokens = "", 0
		return c
	}
	c.Tokens = Tokens(c.line()) + Tokens(c.section())
	return c
}

func (c Chosen) line() string {
	return fmt.Sprintf("| %s | %s |\n", c.Name, strings.ReplaceAll(c.Description, "|", "/"))
}

func (c Chosen) section() string {
	if c.text == "" {
		return ""
	}
	return fmt.Sprintf("\n<skill_content name=%q>\n%s\n</skill_content>\n", c.Name, guarded(c.text))
}

// Prompt returns the part of the system prompt with the chosen skills: a table of all, then their bodies. It is empty if
// there are none.
func (c Choice) Prompt() string {
	var table, bodies strings.Builder
	for _, s := range c {
		if s.Part != Dropped {
			table.WriteString(s.line())
			bodies.WriteString(s.section())
		}
	}
	if table.Len() == 0 {
		return ""
	}
	return "\n\n# Skills for this request\n\n| Skill | What it is for |\n|---|---|\n" + table.String() + bodies.String()
}

// kept are tools that no skill's list excludes: they give the model what it has a right to anyway.
var kept = []string{turn.ActivateSkill, "local/read_artifact"}

// Narrow returns the patterns that restrict a turn's tools to those that the chosen skills allow together; only are the
// patterns that restrict them already. A skill that names no tools allows all of them.
func (c Choice) Narrow(only []string, tools []turn.Tool) []string {
	var allowed []string
	for _, s := range c {
		if s.Part != Dropped {
			if len(s.AllowedTools) == 0 {
				return only
			}
			allowed = append(allowed, s.AllowedTools...)
		}
	}
	if len(allowed) == 0 {
		return only
	}
	allowed = append(allowed, kept...)
	slices.Sort(allowed)
	if allowed = slices.Compact(allowed); len(only) == 0 {
		return allowed
	}
	both := []string{"none"} // matches no tool, so that the list is never empty
	for _, t := range tools {
		if allows(only, t) && allows(allowed, t) {
			both = append(both, t.ID)
		}
	}
	return both
}

func allows(patterns []string, t turn.Tool) bool { return turn.Policy{Allow: patterns}.Offered(t) }

// Report returns what the event skills_selected says; nil if no skill was chosen.
func (c Choice) Report() *turn.SkillsEvent {
	if len(c) == 0 {
		return nil
	}
	out := &turn.SkillsEvent{}
	for _, s := range c {
		out.Skills = append(out.Skills, turn.SkillChoice{Name: s.Name, Score: s.Score.Points(), Part: string(s.Part),
			Tokens: s.Tokens})
	}
	return out
}

// Content returns a skill's whole text for the model that activates it, with the list of its files.
func (s Skill) Content() string {
	text := guarded(s.Body)
	if len(s.Resources) > 0 {
		text += "\n\nFiles of this skill, below " + s.Folder + ":\n- " + strings.Join(s.Resources, "\n- ")
	}
	return fmt.Sprintf("<skill_content name=%q>\n%s\n</skill_content>", s.Name, text)
}

// guarded keeps a body from ending its own element.
func guarded(body string) string {
	return strings.ReplaceAll(body, "</skill_content", "<\\/skill_content")
}

var (
	heading   = regexp.MustCompile(`^(#{1,6})\s+(.*)$`)
	exampleOf = regexp.MustCompile(`(?i)\bexamples?\b`)
	checkItem = regexp.MustCompile(`^\s*[-*+] \[[ xX]\] `)
)

// withoutExamples removes the sections whose heading has the word example, with what is below them.
func withoutExamples(body string) string {
	var out []string
	skip, fenced := 0, false // skip is the level of the heading whose section is removed
	for line := range strings.SplitSeq(body, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if m := heading.FindStringSubmatch(line); m != nil && !fenced {
			if level := len(m[1]); skip == 0 || level <= skip {
				skip = 0
				if exampleOf.MatchString(m[2]) {
					skip = level
				}
			}
		}
		if skip == 0 {
			out = append(out, line)
		}
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// checklists returns the lines of a body that are items of checklists, each list below its heading.
func checklists(body string) string {
	var out []string
	last := ""
	for line := range strings.SplitSeq(withoutExamples(body), "\n") {
		if heading.MatchString(line) {
			last = line
		} else if checkItem.MatchString(line) {
			if last != "" {
				out, last = append(out, last), ""
			}
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
