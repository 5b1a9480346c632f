package skills

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// MaxChosen is the maximum number of skills that are selected for a turn.
const MaxChosen = 3

// Part is the part of a chosen skill's body that the prompt contains.
type Part string

// The parts of a body, from all of it to nothing.
const (
	Whole      Part = "whole"
	NoExamples Part = "no_examples"
	Checklists Part = "checklists" // only its checklists
	Dropped    Part = "dropped"    // the skill is not in the prompt
)

// Chosen is a skill that was selected for a turn. Its Part is Dropped if the budget had no room for it.
type Chosen struct {
	Ranked
	Part   Part `json:"part"`
	Tokens int  `json:"tokens"` // estimated
	text   string
}

// Choice is the skills that were selected for a turn, in the order of their scores.
type Choice []Chosen

// Set is the skills from which Choose selects those of a turn, with the budget for the selected ones.
type Set struct {
	All []Skill
	// Tokens bounds the selected skills in the prompt. So does a tenth of the model's context window, if that is known.
	Tokens int
}

// Choose selects the skills for a request. context is the model's context window in tokens, 0 if unknown. It leaves
// out skills that list allowed tools of which the turn has none.
func (s Set) Choose(request string, context int64, tools []turn.Tool) Choice {
	usable := slices.DeleteFunc(slices.Clone(s.All), func(skill Skill) bool {
		return len(skill.AllowedTools) > 0 &&
			!slices.ContainsFunc(tools, func(t turn.Tool) bool { return allows(skill.AllowedTools, t) })
	})
	budget := s.Tokens
	if context > 0 {
		budget = int(min(int64(budget), context/10))
	}
	return Choose(Rank(request, usable), budget)
}

// Choose selects the highest-ranked skills with a positive score, at most MaxChosen, and cuts their bodies to a
// budget in tokens. If the bodies exceed the budget, they lose first their examples, then everything but checklists,
// and then whole skills are dropped. Each of these steps begins with the lowest-ranked skill and ends when the budget
// is met.
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

// Tokens estimates the number of tokens that the skills take in the prompt.
func (c Choice) Tokens() int { return tokensOf(c.Prompt()) }

// tokensOf estimates the number of tokens of a text.
func tokensOf(text string) int { return int(turn.TokensOf(len(text))) }

// cut returns c with only this part of its body.
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
	c.Tokens = tokensOf(c.line()) + tokensOf(c.section())
	return c
}

// line returns the skill's row in the table of skills.
func (c Chosen) line() string {
	return fmt.Sprintf("| %s | %s |\n", c.Name, strings.ReplaceAll(c.Description, "|", "/"))
}

// section returns the part of the skill's body for the prompt in its own element, or "" if there is none.
func (c Chosen) section() string {
	if c.text == "" {
		return ""
	}
	return fmt.Sprintf("\n<skill_content name=%q>\n%s\n</skill_content>\n", c.Name, escapeEnd(c.text))
}

// Prompt returns the part of the system prompt about the skills: a table of all, then their bodies. It is empty if
// there are no skills or all were dropped.
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

// alwaysAllowed are tools that no skill's list of allowed tools excludes, because they only read what the turn
// already has.
var alwaysAllowed = []string{turn.ActivateSkill, "local/read_artifact"}

// Narrow returns the patterns of the tools to which the turn is restricted: those that at least one of the skills in
// the prompt allows and that match only, the patterns that restrict the turn already. An empty list means no
// restriction. If one of the skills lists no tools, it allows all, so the result is only.
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
	allowed = append(allowed, alwaysAllowed...)
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

// allows reports whether one of the patterns matches the tool.
func allows(patterns []string, t turn.Tool) bool { return turn.Policy{Allow: patterns}.Offered(t) }

// Report returns the data of the event skills_selected, or nil if no skill was selected.
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

// Content returns the skill's whole text and the list of its files, as the result for a model that activates the
// skill.
func (s Skill) Content() string {
	text := escapeEnd(s.Body)
	if len(s.Resources) > 0 {
		text += "\n\nFiles of this skill, below " + s.Folder + ":\n- " + strings.Join(s.Resources, "\n- ")
	}
	return fmt.Sprintf("<skill_content name=%q>\n%s\n</skill_content>", s.Name, text)
}

// escapeEnd escapes the end tag of the skill's element in a body, so that the body cannot end the element.
func escapeEnd(body string) string {
	return strings.ReplaceAll(body, "</skill_content", "<\\/skill_content")
}

var (
	heading   = regexp.MustCompile(`^(#{1,6})\s+(.*)$`)
	exampleOf = regexp.MustCompile(`(?i)\bexamples?\b`)
	checkItem = regexp.MustCompile(`^\s*[-*+] \[[ xX]\] `)
)

// withoutExamples removes the sections whose heading contains the word example, with their subsections.
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

// checklists returns the lines of a body that are items of checklists, with the heading above each list. It ignores
// sections with examples.
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
