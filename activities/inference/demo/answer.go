package demo

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/printable"
)

// The bounds of an answer.
const (
	maxNames      = 40  // files that an answer lists
	maxQuote      = 900 // bytes quoted from a file that explains a project
	maxNamedQuote = 3000
	maxHits       = 15 // lines of a search
	maxLine       = 240
)

const introduction = "I am Everturn's built-in demo: a small set of rules, not a language model. " +
	"I quote what the tools return and understand nothing of it."

const modelHint = "For a real answer set OPENAI_API_KEY, or base_url in the [llm] part of agent.toml, and ask again."

// answer is composed of the tool results and nothing else.
func (c conversation) answer() string {
	var parts []string
	if list := c.resultsOf(toolList); len(list) > 0 {
		parts = append(parts, c.describeListing(list))
	}
	for _, r := range c.resultsOf(toolSearch) {
		parts = append(parts, describeSearch(r.argument(c.queryKey), r.text))
	}
	for _, r := range c.resultsOf(toolRead) {
		parts = append(parts, c.describeFile(r))
	}
	for _, r := range c.resultsOf("") {
		parts = append(parts, "A tool returned:\n"+quote(r.text, maxQuote))
	}
	if len(parts) == 0 {
		parts = append(parts, c.greet())
	}
	return introduction + "\n\n" + strings.Join(append(parts, modelHint), "\n\n")
}

func (c conversation) greet() string {
	if len(c.tools) == 0 {
		return "No file tools were offered to me, so there is nothing that I could look up."
	}
	return `Hello. Ask me which files are here and what this project is about, name a file, ` +
		`or ask me to find a "quoted word".`
}

func (c conversation) describeListing(list []result) string {
	files := c.files()
	if len(files) == 0 {
		return "The list of files that I got has no files in it:\n" + quote(list[0].text, maxQuote)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "There are %d files here", len(files))
	if c.listCut() {
		b.WriteString(" (the list is cut)")
	}
	b.WriteString(":")
	for i, f := range files {
		if i == maxNames {
			fmt.Fprintf(&b, "\n- and %d more", len(files)-maxNames)
			break
		}
		b.WriteString("\n- " + printable.Head(f, maxLine))
	}
	return b.String()
}

func describeSearch(word, found string) string {
	lines := strings.Split(strings.TrimSpace(found), "\n")
	shown := lines[:min(len(lines), maxHits)]
	out := fmt.Sprintf("The search for %q returned:\n%s", printable.Head(word, maxLine),
		quote(strings.Join(shown, "\n"), maxNamedQuote))
	if len(lines) > maxHits {
		out += fmt.Sprintf("\nand %d more lines.", len(lines)-maxHits)
	}
	return out
}

// describeFile quotes a file: its beginning if it explains a project, much of it if the question names it, and in both
// cases the lines that share a word with the question.
func (c conversation) describeFile(r result) string {
	name := r.argument("path")
	if name == "" {
		name = "a file"
	}
	limit, said := maxQuote, beginning(r.text)
	if named := namedFiles(c.question, []string{name}, false); slices.Contains(named, name) {
		limit, said = maxNamedQuote, strings.TrimSpace(r.text)
	}
	out := fmt.Sprintf("%s says:\n%s", printable.Head(name, maxLine), quote(said, limit))
	if len(said) > limit || len(said) < len(strings.TrimSpace(r.text)) {
		if hits := matching(r.text, c.question, name); hits != "" {
			out += "\nLines in it that share a word with the question:\n" + quote(hits, maxQuote)
		}
	}
	return out
}

// beginning returns a text's first heading and first paragraphs: everything before the fourth blank line.
func beginning(text string) string {
	var kept []string
	blanks := 0
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			blanks++
		}
		if blanks == 4 {
			break
		}
		kept = append(kept, line)
	}
	return strings.TrimSpace(strings.Join(kept, "\n"))
}

// matching returns the first lines of a text that share a word with the question. Words of the file's own name do not
// count.
func matching(text, question, name string) string {
	var hits []string
	ws := words(question)
	for line := range strings.Lines(text) {
		low := strings.ToLower(line)
		for _, w := range ws {
			if strings.Contains(low, w) && !strings.Contains(strings.ToLower(path.Base(name)), w) {
				hits = append(hits, strings.TrimSpace(line))
				break
			}
		}
		if len(hits) == 5 {
			break
		}
	}
	return strings.Join(hits, "\n")
}

// quote marks each line as a quotation, up to limit bytes.
func quote(text string, limit int) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "> (nothing)"
	}
	cut := len(text) > limit
	var b strings.Builder
	for line := range strings.Lines(printable.Head(text, limit)) {
		b.WriteString("> " + printable.Head(strings.TrimRight(line, "\r\n"), maxLine) + "\n")
	}
	if cut {
		b.WriteString("> …\n")
	}
	return strings.TrimRight(b.String(), "\n")
}
