package demo

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxReads is the number of files that an answer uses at most.
const maxReads = 3

// decide applies the rules.
func decide(c conversation) step {
	s := c.next()
	s.json = c.json
	return s
}

func (c conversation) next() step {
	list, canList := c.tools[toolList]
	search, canSearch := c.tools[toolSearch]
	word := soughtWord(c.question)
	switch {
	case namedCall.MatchString(c.question):
		return c.callNamed()
	case c.canAsk && asking.MatchString(c.question):
		return step{ask: "Which file shall I look at?"}
	case isGreeting(c.question), !canList && !canSearch, len(c.results) > 8:
		return step{text: c.answer()}
	case word != "" && canSearch:
		if len(c.resultsOf(toolSearch)) == 0 {
			return step{text: "I search for that.", calls: []call{{search, map[string]any{c.queryKey: word}}}}
		}
		return step{text: c.answer()}
	case canList && len(c.resultsOf(toolList)) == 0:
		return step{text: "I look at the files first.", calls: []call{{list, map[string]any{"path": "."}}}}
	}
	return c.readNext()
}

// namedCall matches a question that is a tool call: the tool's name and its arguments, a JSON object.
var namedCall = regexp.MustCompile(`(?s)^call ([\w/.-]+) (\{.*\})\s*$`)

// callNamed makes the call that the question names, and then answers with its result alone.
func (c conversation) callNamed() step {
	if len(c.results) > 0 {
		return step{text: c.results[len(c.results)-1].text}
	}
	m := namedCall.FindStringSubmatch(c.question)
	var arguments map[string]any
	if err := json.Unmarshal([]byte(m[2]), &arguments); err != nil {
		return step{text: "The arguments are not a JSON object: " + err.Error()}
	}
	return step{calls: []call{{strings.ReplaceAll(m[1], "/", "_"), arguments}}}
}

// readNext reads the wanted files that have not been read. If there are none, it answers.
func (c conversation) readNext() step {
	name, canRead := c.tools[toolRead]
	if !canRead {
		return step{text: c.answer()}
	}
	tried := map[string]bool{}
	for _, r := range c.resultsOf(toolRead) {
		tried[r.argument("path")] = true
	}
	var calls []call
	for _, file := range c.filesToRead() {
		if !tried[file] {
			calls = append(calls, call{name, map[string]any{"path": file}})
		}
	}
	if len(calls) == 0 {
		return step{text: c.answer()}
	}
	return step{text: "I read what seems to matter.", calls: calls}
}

// files returns the paths of the listing, without directories.
func (c conversation) files() []string {
	var out []string
	for _, r := range c.resultsOf(toolList) {
		for line := range strings.Lines(r.text) {
			name, _, sized := strings.Cut(strings.TrimRight(line, "\r\n"), "\t")
			looks := sized || !strings.ContainsAny(name, " :") // otherwise it may be the text of an error
			if name != "" && looks && !strings.HasPrefix(name, "[") && !strings.HasSuffix(name, "/") {
				out = append(out, strings.TrimPrefix(name, "./"))
			}
		}
	}
	return out
}

// filesToRead returns the files to read, the most wanted first: those that the question names; otherwise, for a
// question about the whole project, those that usually explain one; otherwise those whose names share words with the
// question.
func (c conversation) filesToRead() []string {
	files := c.files()
	if named := namedFiles(c.question, files, c.listCut()); len(named) > 0 {
		return firstN(named, maxReads)
	}
	if !isOverview(c.question) {
		if similar := similarFiles(c.question, files); len(similar) > 0 {
			return firstN(similar, 2)
		}
	}
	return firstN(explaining(files), maxReads)
}

// listCut reports whether the listing is truncated.
func (c conversation) listCut() bool {
	for _, r := range c.resultsOf(toolList) {
		if strings.Contains(r.text, "\n[cut") {
			return true
		}
	}
	return false
}

func firstN(s []string, n int) []string { return s[:min(len(s), n)] }

// namedFiles returns the files whose path or name is in the question. It includes unlisted paths into a directory,
// because listings do not descend to every level, and unlisted file names if the listing is truncated.
func namedFiles(question string, files []string, cut bool) []string {
	tokens := strings.FieldsFunc(question, func(r rune) bool { return strings.ContainsRune(" \t\n\"'`?!,;:()[]{}<>", r) })
	var out []string
	add := func(f string) {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	for _, token := range tokens {
		token = strings.TrimPrefix(strings.TrimRight(token, "."), "./")
		found := false
		for _, f := range files {
			if strings.EqualFold(f, token) || strings.EqualFold(path.Base(f), token) {
				add(f)
				found = true
			}
		}
		if !found && (cut || strings.Contains(token, "/")) && pathLike.MatchString(token) && !strings.Contains(token, "..") {
			add(token)
		}
	}
	return out
}

// pathLike matches a relative path with an extension that is long enough not to be "e.g".
var pathLike = regexp.MustCompile(`^(?:[\w.-]+/)*[\w-]{2,}\.[A-Za-z][A-Za-z0-9]{0,7}$`)

// similarFiles returns the files whose names share a word with the question, the closest first.
func similarFiles(question string, files []string) []string {
	words := words(question)
	score := map[string]int{}
	var out []string
	for _, f := range files {
		name := strings.ToLower(f)
		for _, w := range words {
			if strings.Contains(name, w) {
				score[f] += len(w)
			}
		}
		if score[f] > 0 {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b string) int { return score[b] - score[a] })
	return out
}

// explanations are the names of files that explain a project, the best first.
var explanations = strings.Fields("readme go.mod package.json pyproject.toml cargo.toml pom.xml index about overview " +
	"main doc")

// textual are the extensions of files to read if there is nothing better.
var textual = append(strings.Fields(".md .txt .rst .adoc .org .go .py .js .ts .rs .java .c .toml .yaml .yml .json "+
	".csv"), "")

// explaining sorts the files by how well they explain a project; those near the root come first. Other files come last.
func explaining(files []string) []string {
	rank := func(f string) int {
		base := strings.ToLower(path.Base(f))
		depth := strings.Count(f, "/") * 1000
		for i, e := range explanations {
			if strings.HasPrefix(base, e) {
				return depth + i
			}
		}
		if i := slices.Index(textual, path.Ext(base)); i >= 0 {
			return depth + 100 + i
		}
		return depth + 500
	}
	out := slices.Clone(files)
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	for i, f := range out {
		if i > 1 && rank(f) >= 100 {
			return out[:i] // two files that explain the project are enough; the others are not needed then
		}
		if rank(f) >= 100 {
			break
		}
	}
	return out
}

var (
	overview = regexp.MustCompile(`(?i)\b(which|what|list|show)\b.*` +
		`\b(files?|folders?|here|project|repo|repository|workspace|directory)\b|\babout\b|\boverview\b|\bsummar`)
	greeting = regexp.MustCompile(`(?i)^\W*(hi|hello|hey|hallo|good (morning|day|evening)|thanks|thank you|ping|` +
		`who are you|what are you)\b[^/.]{0,24}$`)
	asking  = regexp.MustCompile(`(?i)\bask me\b`)
	seeking = regexp.MustCompile(`(?i)\b(?:find|search|where|grep|look for|occurs?|contains?|mentions?)\b`)
	quoted  = regexp.MustCompile("\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|`([^`\n]{1,200})`|" +
		"“([^”\n]{1,200})”|„([^“\n]{1,200})“")
	bare = regexp.MustCompile(`(?i)\b(?:find|search for|grep(?: for)?|look for)\s+(?:the word\s+|the text\s+)?` +
		`([\w.-]{3,60})\s*[.?!]?\s*$`)
)

func isOverview(question string) bool { return overview.MatchString(question) }

func isGreeting(question string) bool {
	q := strings.TrimSpace(question)
	return q == "" || len(strings.Fields(q)) <= 5 && greeting.MatchString(q) && !isOverview(q)
}

// soughtWord returns the word that the question asks to find, or "".
func soughtWord(question string) string {
	if !seeking.MatchString(question) {
		return ""
	}
	if m := quoted.FindStringSubmatch(question); m != nil {
		return strings.TrimSpace(strings.Join(m[1:], ""))
	}
	if m := bare.FindStringSubmatch(question); m != nil {
		return m[1]
	}
	return ""
}

// stopWords are common words in questions that say nothing about files.
var stopWords = strings.Fields(
	"what which where that this file files does about tell show with from please read have " +
		"there here project say the and are how who")

// words returns the significant words of the question, in lower case.
func words(question string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(strings.ToLower(question), func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127)
	}) {
		if len(w) >= 3 && !slices.Contains(stopWords, w) {
			out = append(out, w)
		}
	}
	return out
}
