package skills

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// The parts of a score, in tenths, so that sums are exact. Each part counts once.
const (
	nameScore    = 10 // the request mentions the skill's name
	tagScore     = 4  // it has one of the skill's tags
	keywordScore = 2  // it has one of the skill's keywords
)

// Score is how well a skill fits a request, in tenths, and why.
type Score struct {
	Tenths  int    `json:"tenths"`
	Name    bool   `json:"name,omitempty"`    // the request mentions the name
	Tag     string `json:"tag,omitempty"`     // the first tag that the request has
	Keyword string `json:"keyword,omitempty"` // the first keyword that it has
}

// Points returns the score as the documentation counts it: 1 for the name.
func (s Score) Points() float64 { return float64(s.Tenths) / 10 }

// Ranked is a skill with its score for a request.
type Ranked struct {
	Skill
	Score Score `json:"score"`
}

// Rank returns the skills by their score for the request, the highest first, and by name if they have the same.
func Rank(request string, all []Skill) []Ranked {
	text := normal(request)
	out := make([]Ranked, len(all))
	for i, s := range all {
		out[i] = Ranked{Skill: s, Score: s.score(text)}
	}
	slices.SortFunc(out, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Score.Tenths, a.Score.Tenths), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func (s Skill) score(text string) (score Score) {
	has := func(words string) bool { n := normal(words); return n != " " && strings.Contains(text, n) }
	if score.Name = has(s.Name); score.Name {
		score.Tenths += nameScore
	}
	if i := slices.IndexFunc(s.Tags, has); i >= 0 {
		score.Tag = s.Tags[i]
		score.Tenths += tagScore
	}
	if i := slices.IndexFunc(s.Keywords, has); i >= 0 {
		score.Keyword = s.Keywords[i]
		score.Tenths += keywordScore
	}
	return score
}

// normal returns the words of a text in lower case, with one space before, between and after them. A word is made of
// letters and digits.
func normal(text string) string {
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	words := strings.FieldsFunc(strings.ToLower(text), separates)
	if len(words) == 0 {
		return " "
	}
	return " " + strings.Join(words, " ") + " "
}

// longWord is the length from which a word of a description is a keyword. Shorter words are mostly too common.
const longWord = 5

// common are longer words that descriptions of skills have without saying what the skill is about.
var common = strings.Fields("about above after again agent always asked asking based before being below between could " +
	"create creating during every example first following format helps instructions model other please provide provides " +
	"request requests should skill skills their there these things those through under using wants where which while with " +
	"without working would write writing")

// longWords returns the words of a description that serve as keywords.
func longWords(description string) (out []string) {
	for w := range strings.FieldsSeq(normal(description)) {
		if len([]rune(w)) >= longWord && !slices.Contains(common, w) {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
