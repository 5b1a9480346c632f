package page

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// diffLine is a line of a diff as the style sheet shows it.
type diffLine struct {
	Tag    string // ins, del, span, or b: the header of a file or of a hunk
	Number string
	Text   string
}

var hunkHeader = regexp.MustCompile(`(?m)^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@.*$`)

// maxDiffLines bounds the lines of a diff that are shown as one.
const maxDiffLines = 2000

// diffOf splits a text that is a unified diff, with perhaps some lines before it, into lines. ok is false if it is
// none.
func diffOf(text string) (lines []diffLine, ok bool) {
	if !hunkHeader.MatchString(text) || strings.Count(text, "\n") > maxDiffLines {
		return nil, false
	}
	before, inHunk := 0, false
	after := 0
	for l := range strings.SplitSeq(strings.TrimRight(visible(text), "\n"), "\n") {
		if m := hunkHeader.FindStringSubmatch(l); m != nil {
			after, _ = strconv.Atoi(m[1])
			before, _ = strconv.Atoi(strings.TrimLeft(strings.SplitN(strings.Fields(l)[1], ",", 2)[0], "-"))
			lines, inHunk = append(lines, diffLine{Tag: "b", Text: l}), true
			continue
		}
		kind := byte(0)
		if l != "" && inHunk {
			kind = l[0]
		}
		switch kind {
		case '+':
			lines = append(lines, diffLine{"ins", strconv.Itoa(after), l[1:]})
			after++
		case '-':
			lines = append(lines, diffLine{"del", strconv.Itoa(before), l[1:]})
			before++
		case ' ':
			lines = append(lines, diffLine{"span", strconv.Itoa(after), l[1:]})
			after, before = after+1, before+1
		default:
			inHunk = inHunk && (l == "" || l[0] == '\\')
			lines = append(lines, diffLine{Tag: "b", Text: l})
		}
	}
	return lines, true
}

// maxEdited bounds the texts of an edit of which a diff is made, in bytes.
const maxEdited = 256 << 10

// editDiff returns the diff of a call whose arguments are a patch, an old and a new text, or a whole text; nil for
// other calls. Other arguments than these may change what the call does: they are in the arguments, which are always
// shown.
func editDiff(arguments string) []diffLine {
	var a struct {
		Path, Patch, Content string
		OldString            string `json:"old_string"`
		NewString            string `json:"new_string"`
	}
	if len(arguments) > maxEdited || json.Unmarshal([]byte(arguments), &a) != nil {
		return nil
	}
	text := a.Patch
	switch {
	case text != "":
	case a.OldString != "" || a.NewString != "":
		text = string(diff.Diff(a.Path, []byte(terminated(a.OldString)), a.Path, []byte(terminated(a.NewString))))
	case a.Content != "" && a.Path != "":
		text = string(diff.Diff("", nil, a.Path, []byte(terminated(a.Content))))
	}
	if _, hunks, ok := strings.Cut("\n"+text, "\n@@ "); ok {
		text = a.Path + "\n@@ " + hunks
	}
	lines, _ := diffOf(text)
	return lines
}

// terminated returns text with a newline at its end.
func terminated(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }
