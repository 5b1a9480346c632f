package demo

import (
	"encoding/json"
	"regexp"
	"strings"

	openai "github.com/sashabaranov/go-openai"
)

// The suffixes of the tool names that the rules know.
const (
	toolList   = "list_files"
	toolRead   = "read_file"
	toolSearch = "search_text"
)

// toolAsk is the name of the tool with which a model asks its user a question.
const toolAsk = "ask_user"

// conversation is what the rules know about a request.
type conversation struct {
	question string
	json     bool              // the request uses the JSON action protocol
	canAsk   bool              // the request offers toolAsk
	tools    map[string]string // known tool → the name under which it is offered
	queryKey string            // the argument of search_text that takes the search text
	results  []result          // the results since the question, in order
}

// result is the result of a tool call.
type result struct {
	tool      string // list_files, read_file, search_text, or "" for others
	arguments map[string]any
	text      string
}

// argument returns a call's argument as text.
func (r result) argument(key string) string {
	s, _ := r.arguments[key].(string)
	return s
}

// resultsOf returns the results of one tool.
func (c conversation) resultsOf(tool string) []result {
	var out []result
	for _, r := range c.results {
		if r.tool == tool {
			out = append(out, r)
		}
	}
	return out
}

// The marks of user messages that the user did not write: notes, and results in the JSON action protocol.
var (
	noteMark   = "(Automatic note"
	resultMark = regexp.MustCompile(`^Result of call \S+ \(\w*\):\n`)
)

// read finds the question and the calls and results that follow it.
func read(req openai.ChatCompletionRequest) conversation {
	c := conversation{tools: map[string]string{}, queryKey: "query"}
	c.offer(req)
	pending := map[string]result{} // native calls by ID
	var last result                // the JSON protocol's call
	for _, m := range req.Messages {
		text := content(m)
		switch {
		case m.Role == openai.ChatMessageRoleUser && strings.HasPrefix(text, noteMark):
		case m.Role == openai.ChatMessageRoleUser && resultMark.MatchString(text):
			last.text = text[len(resultMark.FindString(text)):]
			c.results = append(c.results, last)
		case m.Role == openai.ChatMessageRoleUser:
			c.question, c.results = text, nil
		case m.Role == openai.ChatMessageRoleTool:
			r := pending[m.ToolCallID]
			r.text = text
			c.results = append(c.results, r)
		case m.Role == openai.ChatMessageRoleAssistant:
			last = jsonCall(text)
			for _, call := range m.ToolCalls {
				pending[call.ID] = called(call.Function.Name, []byte(call.Function.Arguments))
			}
		}
	}
	return c
}

// offer records the tools of the request, or of a system prompt that describes the JSON action protocol.
func (c *conversation) offer(req openai.ChatCompletionRequest) {
	for _, t := range req.Tools {
		if t.Function == nil {
			continue
		}
		c.canAsk = c.canAsk || t.Function.Name == toolAsk
		if known := knownTool(t.Function.Name); known != "" {
			c.tools[known] = t.Function.Name
			if known == toolSearch {
				c.queryKey = queryKey(t.Function.Parameters)
			}
		}
	}
	if len(req.Tools) > 0 || len(req.Messages) == 0 {
		return
	}
	system := content(req.Messages[0])
	c.json = strings.Contains(system, `"type":"tool_call"`) || strings.Contains(system, `"type":"final"`)
	c.canAsk = c.json && strings.Contains(system, toolAsk)
	if !c.json {
		return
	}
	for _, name := range toolName.FindAllString(system, -1) {
		if known := knownTool(name); known != "" && c.tools[known] == "" {
			c.tools[known] = name
		}
	}
}

var toolName = regexp.MustCompile(`[A-Za-z0-9_/-]*(?:` + toolList + `|` + toolRead + `|` + toolSearch + `)\b`)

func knownTool(name string) string {
	for _, known := range []string{toolList, toolRead, toolSearch} {
		if strings.HasSuffix(name, known) {
			return known
		}
	}
	return ""
}

// queryKey finds the search text's argument in a search tool's schema.
func queryKey(schema any) string {
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	for _, key := range []string{"query", "text", "pattern"} {
		if _, ok := properties[key]; ok {
			return key
		}
	}
	return "query"
}

func called(name string, arguments []byte) result {
	r := result{tool: knownTool(name)}
	_ = json.Unmarshal(arguments, &r.arguments) // arguments that are not an object count as none
	return r
}

// jsonCall reads an assistant message of the JSON action protocol.
func jsonCall(text string) result {
	var action struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if json.Unmarshal([]byte(text), &action) != nil {
		return result{}
	}
	return called(action.Name, action.Arguments)
}

func content(m openai.ChatCompletionMessage) string {
	text := m.Content
	for _, p := range m.MultiContent {
		text += p.Text
	}
	return text
}
