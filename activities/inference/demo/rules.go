package demo

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"
)

// The endings of the names of the tools that the rules use. The beginning of such a name depends on the tool's server.
const (
	toolList   = "list_files"
	toolRead   = "read_file"
	toolSearch = "search_text"
	toolWrite  = "write_file"
)

// toolAsk is the name of the tool with which a model asks the user a question.
const toolAsk = "ask_user"

// maxReads is the largest number of files that the demo reads for one question.
const maxReads = 3

// conversation contains the parts of a request on which the rules depend.
type conversation struct {
	question string // the last message of the user
	tools    []openai.FunctionDefinition
	results  []result // the results since the question, in order
	note     string   // the last message, if it is a note that Everturn has added
}

// result is a tool call with its result.
type result struct {
	call call
	text string
}

// call is a call of an offered tool.
type call struct {
	name      string // as offered
	arguments map[string]any
}

// step is the demo's reply to a request: an answer, or calls with an accompanying text.
type step struct {
	text  string
	calls []call
}

// noteMark is the beginning of the notes that Everturn adds to a prompt as user messages.
const noteMark = "(Automatic note"

// agentMark is the beginning of the message that brings the answer of an agent in the background.
const agentMark = "(The agent "

// parseRequest returns the conversation in a request: the question, the results of the calls that follow it, the
// offered tools, and the note at the end, if there is one.
func parseRequest(req openai.ChatCompletionRequest) conversation {
	c := conversation{}
	for _, t := range req.Tools {
		if t.Function != nil {
			c.tools = append(c.tools, *t.Function)
		}
	}
	calls := map[string]call{} // the calls of all assistant messages, by ID
	for _, m := range req.Messages {
		text := m.Content
		for _, p := range m.MultiContent {
			text += p.Text
		}
		c.note = ""
		switch {
		case m.Role == openai.ChatMessageRoleUser && strings.HasPrefix(text, noteMark):
			c.note = text
		case m.Role == openai.ChatMessageRoleUser:
			c.question, c.results = text, nil
		case m.Role == openai.ChatMessageRoleTool:
			c.results = append(c.results, result{calls[m.ToolCallID], text})
		}
		for _, toolCall := range m.ToolCalls {
			called := call{name: toolCall.Function.Name}
			_ = json.Unmarshal([]byte(toolCall.Function.Arguments), &called.arguments) // this package wrote them as JSON
			calls[toolCall.ID] = called
		}
	}
	return c
}

// toolWithSuffix returns the first offered tool whose name ends in suffix; false if there is none.
func (c conversation) toolWithSuffix(suffix string) (openai.FunctionDefinition, bool) {
	i := slices.IndexFunc(c.tools, func(t openai.FunctionDefinition) bool { return strings.HasSuffix(t.Name, suffix) })
	if i < 0 {
		return openai.FunctionDefinition{}, false
	}
	return c.tools[i], true
}

// resultsOf returns the results of the tools whose names end in suffix.
func (c conversation) resultsOf(suffix string) (list []result) {
	for _, r := range c.results {
		if strings.HasSuffix(r.call.name, suffix) {
			list = append(list, r)
		}
	}
	return list
}

var (
	asking   = regexp.MustCompile(`(?i)\bask me\b`)
	greeting = regexp.MustCompile(`(?i)^\W*(hi|hello|hey|good (morning|day|evening)|thanks|thank you|ping)\b[^/.?]*$`)
	writing  = regexp.MustCompile(`(?is)^write ([\w./-]+): ?(.+)$`) // the file's name, and its content
	seeking  = regexp.MustCompile(`(?i)\b(?:find|search|grep|look for)\b`)
	quoted   = regexp.MustCompile("\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|`([^`\n]{1,200})`")
)

// nextStep decides the reply by the rules in the package's documentation; the first one that applies decides. A case
// without a return leads to the answer at the end, for instance after the call that the rule asks for was made.
func (c conversation) nextStep() step {
	ask, canAsk := c.toolWithSuffix(toolAsk)
	search, canSearch := c.toolWithSuffix(toolSearch)
	list, canList := c.toolWithSuffix(toolList)
	write, canWrite := c.toolWithSuffix(toolWrite)
	file := writing.FindStringSubmatch(c.question)
	named, isNamed := c.namedTool()
	words := quotedWords(c.question)
	_, canPlan := c.toolWithSuffix(toolPlan)
	steps := c.planSteps()
	switch {
	case strings.HasPrefix(c.question, agentMark):
		_, answer, _ := strings.Cut(c.question, "\n\n")
		return step{text: answer}
	case canPlan && len(steps) > 0:
		return c.followPlan(steps)
	case namedCall.MatchString(c.question):
		return c.runNamedCall()
	case len(c.results) == 0 && isNamed:
		return step{"I call the tool that you name.", []call{{named.Name, arguments(named, c.question)}}}
	case isNamed, greeting.MatchString(c.question): // the answer
	case canAsk && asking.MatchString(c.question):
		return step{calls: []call{{ask.Name, map[string]any{"question": "Which file shall I look at?"}}}}
	case canWrite && file != nil:
		if len(c.results) == 0 {
			return step{"I write that.", []call{{write.Name, map[string]any{"path": file[1], "content": file[2] + "\n"}}}}
		}
	case canSearch && len(words) > 0 && seeking.MatchString(c.question):
		if len(c.results) == 0 {
			return step{"I search for that.", []call{{search.Name, arguments(search, c.question)}}}
		}
	case canList && len(c.results) == 0:
		return step{"I look at the files first.", []call{{list.Name, map[string]any{"path": "."}}}}
	case len(c.resultsOf(toolRead)) == 0:
		if calls := c.readCalls(); len(calls) > 0 {
			return step{"I read what seems to matter.", calls}
		}
	}
	return step{text: c.answer()}
}

// namedCall matches a question that is a tool call: "call", the tool's name, and its arguments as a JSON object.
var namedCall = regexp.MustCompile(`(?s)^call ([\w/.-]+) (\{.*\})\s*$`)

// runNamedCall replies to a question that namedCall matches: with the call, even of a tool that is not offered, and
// then with the call's result alone.
func (c conversation) runNamedCall() step {
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

// namedTool returns the offered tool that the question names; found is false if there is none. The question may use the
// name under which the tool is offered, the tool's ID, or the end of either, if that has several words, because a
// single word of the question rarely means a tool. If several tools are named, the longest name wins.
func (c conversation) namedTool() (named openai.FunctionDefinition, found bool) {
	longest := 0
	for word := range strings.FieldsFuncSeq(c.question,
		func(r rune) bool { return strings.ContainsRune(" \t\n\"'`?!,;:(){}", r) }) {
		word = strings.ReplaceAll(strings.Trim(word, "."), "/", "_")
		for _, t := range c.tools {
			isName := t.Name == word || strings.Contains(word, "_") && strings.HasSuffix(t.Name, "_"+word)
			if isName && len(word) > longest {
				named, found, longest = t, true, len(word)
			}
		}
	}
	return named, found
}

// wholeNumber matches a number that is a word of its own and fits any integer type.
var wholeNumber = regexp.MustCompile(`\b[1-9]\d{0,8}\b`)

// arguments returns arguments for a call of the tool: the JSON object in the question, if there is one. Otherwise it
// makes up the required arguments: strings from the quoted words and numbers from the numbers of the question, in their
// order, and other values that fit the schema.
func arguments(t openai.FunctionDefinition, question string) map[string]any {
	if begin, end := strings.Index(question, "{"), strings.LastIndex(question, "}"); begin >= 0 && end > begin {
		var given map[string]any
		if json.Unmarshal([]byte(question[begin:end+1]), &given) == nil {
			return given
		}
	}
	var schema struct {
		Required   []string
		Properties map[string]struct {
			Type any
			Enum []any
		}
	}
	raw, _ := json.Marshal(t.Parameters) // it was just unmarshalled
	_ = json.Unmarshal(raw, &schema)     // a schema of another form requires nothing
	words, out := quotedWords(question), map[string]any{}
	numbers := wholeNumber.FindAllString(question, -1)
	for _, name := range schema.Required {
		p := schema.Properties[name]
		switch {
		case len(p.Enum) > 0:
			out[name] = p.Enum[0]
		case p.Type == "number" || p.Type == "integer":
			out[name] = 1
			if len(numbers) > 0 {
				out[name], numbers = json.Number(numbers[0]), numbers[1:]
			}
		case p.Type == "boolean":
			out[name] = false
		case p.Type == "array":
			out[name] = []any{}
		case p.Type == "object":
			out[name] = map[string]any{}
		case len(words) > 0:
			out[name], words = words[0], words[1:]
		default:
			out[name] = "demo"
		}
	}
	return out
}

// quotedWords returns the parts of the question in quotes or backticks, without the quotes.
func quotedWords(question string) (words []string) {
	for _, m := range quoted.FindAllStringSubmatch(question, -1) {
		words = append(words, strings.Join(m[1:], "")) // only one of the three groups matched
	}
	return words
}

// readCalls returns calls that read up to maxReads files: those of the listing that the question names, or else other
// paths in the question, or else the files that usually explain a project, or else the first ones.
func (c conversation) readCalls() (calls []call) {
	tool, ok := c.toolWithSuffix(toolRead)
	if !ok {
		return nil
	}
	files := c.files()
	wanted := slices.DeleteFunc(slices.Clone(files), func(f string) bool {
		return !strings.Contains(strings.ToLower(c.question), strings.ToLower(path.Base(f)))
	})
	if len(wanted) == 0 {
		wanted = nestedPath.FindAllString(c.question, -1)
	}
	if len(wanted) == 0 {
		wanted = slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !projectFile.MatchString(f) })
	}
	if len(wanted) == 0 {
		wanted = files
	}
	for _, f := range wanted[:min(len(wanted), maxReads)] {
		calls = append(calls, call{tool.Name, map[string]any{"path": f}})
	}
	return calls
}

var (
	// nestedPath matches the path of a file in a folder. Listings may lack such files, because they do not descend to
	// every level.
	nestedPath = regexp.MustCompile(`(?:[\w-]+/)+[\w-]+\.[A-Za-z]\w{0,7}`)
	// projectFile matches files in the top folder that usually explain a project.
	projectFile = regexp.MustCompile(`(?i)^(readme|go\.mod|package\.json|pyproject\.toml|cargo\.toml)[^/]*$`)
)

// files returns the paths in the results of list_files, without folders. A line of such a result is a path, a tab and
// the size.
func (c conversation) files() (files []string) {
	for _, r := range c.resultsOf(toolList) {
		for line := range strings.Lines(r.text) {
			if name, _, sized := strings.Cut(strings.TrimSpace(line), "\t"); sized && !strings.HasSuffix(name, "/") {
				files = append(files, strings.TrimPrefix(name, "./"))
			}
		}
	}
	return files
}
