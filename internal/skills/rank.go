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
	tagScore     = 4  // the request contains one of the skill's tags
	keywordScore = 2  // the request contains one of the skill's keywords
)

// Score says how well a skill matches a request, in tenths of a point, and why.
type Score struct {
	Tenths  int    `json:"tenths"`
	Name    bool   `json:"name,omitempty"`    // the request mentions the name
	Tag     string `json:"tag,omitempty"`     // the first tag that the request contains
	Keyword string `json:"keyword,omitempty"` // the first keyword that the request contains
}

// Points returns the score in points, the unit of the documentation, in which the name counts 1.
func (s Score) Points() float64 { return float64(s.Tenths) / 10 }

// Ranked is a skill with its score for a request.
type Ranked struct {
	Skill
	Score Score `json:"score"`
}

// Rank returns all skills with their scores for the request, highest first. Skills with the same score are in the
// order of their names.
func Rank(request string, all []Skill) []Ranked {
	text := normalized(request)
	out := make([]Ranked, len(all))
	for i, s := range all {
		out[i] = Ranked{Skill: s, Score: s.score(text)}
	}
	slices.SortFunc(out, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Score.Tenths, a.Score.Tenths), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// score returns the skill's score for a request in the form of normalized.
func (s Skill) score(text string) (score Score) {
	has := func(words string) bool { n := normalized(words); return n != " " && strings.Contains(text, n) }
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

// normalized returns the words of a text in lower case, with one space before, between and after them, so that a
// search finds whole words only. A word consists of letters and digits.
func normalized(text string) string {
	separates := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	words := strings.FieldsFunc(strings.ToLower(text), separates)
	if len(words) == 0 {
		return " "
	}
	return " " + strings.Join(words, " ") + " "
}

// longWord is the number of characters from which a word of a description is a keyword. Shorter words are mostly too
// common.
const longWord = 5

// commonWords are long words that are no keywords, because they do not say what a skill is about.
var commonWords = strings.Fields("about above after again agent always asked asking based before being below between could " +
	"create creating during every example first following format helps instructions model other please provide provides " +
	"request requests should skill skills their there these things those through under using wants where which while with " +
	"without working would write writing")

// longWords returns the words of a description that serve as keywords, sorted.
func longWords(description string) (out []string) {
	for w := range strings.FieldsSeq(normalized(description)) {
		if len([]rune(w)) >= longWord && !slices.Contains(commonWords, w) {
			out = append(out, w)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
