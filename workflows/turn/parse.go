package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/everturn/everturn/internal/printable"
)

// Parse returns the action of a completion. In native mode, tool calls win over text beside them; in JSON mode, the
// text must be exactly one JSON object of the protocol. The error is an *InvalidAction. Parse does not check whether
// the tools exist or whether the arguments fit their schemas.
func Parse(mode Mode, step int, c Completion, tools []Tool) (Action, error) {
	if mode == ModeJSON && !c.Plan {
		return parseJSON(step, c.Text, tools)
	}
	return parseNative(step, c, tools)
}

// parseNative returns the action of a completion in native mode: the tool calls if there are any, or else the text as
// the final answer.
func parseNative(step int, done Completion, tools []Tool) (Action, error) {
	if len(done.ToolCalls) == 0 {
		if strings.TrimSpace(done.Text) == "" {
			return nil, &InvalidAction{Step: step, Kind: InvalidEmpty,
				Reason: "the answer is empty: it has neither text nor a tool call"}
		}
		return Final{Text: done.Text}, nil
	}
	for _, c := range done.ToolCalls {
		if c.Tool == AskUserTool {
			return parseAsk(step, done.ToolCalls)
		}
	}
	calls := make([]ToolCall, len(done.ToolCalls))
	seen, next := map[string]bool{}, 0
	for i, c := range done.ToolCalls {
		wire := c.WireID
		// Providers require a short, unique ID for each call. The loop repeats if the model itself used a generated ID. No
		// call of a model may look like one of the plan.
		forged := strings.HasPrefix(wire, planCallPrefix) && !done.Plan
		for wire == "" || len(wire) > maxWire || seen[wire] || forged {
			forged = false
			next = max(next, i)
			wire = fmt.Sprintf("call_%d_%d", step, next)
			next++
		}
		seen[wire] = true
		calls[i] = ToolCall{ID: CallID(step, i), WireID: wire, Tool: toolOfWire(tools, c.Tool),
			Arguments: orEmptyObject(c.Arguments)}
	}
	return CallTools{Calls: calls}, nil
}

// orEmptyObject returns an empty object for empty arguments, which some providers send for a tool without parameters.
func orEmptyObject(arguments string) string {
	if strings.TrimSpace(arguments) == "" {
		return "{}"
	}
	return arguments
}

// parseAsk returns the question of a completion in native mode that calls ask_user. The question must be its only
// call.
func parseAsk(step int, calls []ToolCall) (Action, error) {
	c := calls[0]
	if len(calls) > 1 {
		return nil, &InvalidAction{Step: step, Kind: InvalidQuestionNotAlone, Name: AskUserTool,
			Reason: "ask_user must be the only call of an answer"}
	}
	fields, err := strictObject(c.Arguments)
	if err == nil {
		var q string
		if q, err = stringField(fields, "question"); err == nil && len(fields) == 1 {
			return AskUser{Question: q}, nil
		}
	}
	reason := `its arguments must be {"question": "..."}`
	if err != nil {
		reason += ": " + err.Error()
	}
	return nil, &InvalidAction{Step: step, Kind: InvalidArguments, Name: AskUserTool,
		Arguments: Truncate(c.Arguments, ArgumentsPreview), Reason: reason}
}

// CallID returns the ID of a step's call, "<step>.<index>". The index begins at 0.
func CallID(step, index int) string { return fmt.Sprintf("%d.%d", step, index) }

// toolOfWire returns the catalogue ID of the tool with this wire name, or the name itself if no tool has it.
func toolOfWire(tools []Tool, wire string) string {
	for _, t := range tools {
		if t.Wire == wire {
			return t.ID
		}
	}
	return wire
}

// flaw is the error of a text that is valid JSON, but not a valid action, or that is empty.
type flaw struct {
	kind   InvalidKind
	reason string
}

func (f flaw) Error() string { return f.reason }

// parseJSON returns the action of a text in JSON mode.
func parseJSON(step int, text string, tools []Tool) (Action, error) {
	invalid := func(err error) error {
		kind, f := InvalidJSON, flaw{}
		if errors.As(err, &f) {
			kind = f.kind
		}
		return &InvalidAction{Step: step, Kind: kind, Reason: err.Error(), Raw: Truncate(text, ArgumentsPreview)}
	}
	if strings.TrimSpace(text) == "" {
		return nil, invalid(flaw{InvalidEmpty, "the answer is empty; answer with exactly one JSON object"})
	}
	fields, err := strictObject(text)
	if err != nil {
		return nil, invalid(fmt.Errorf("answer with exactly one JSON object and nothing around it: %w", err))
	}
	kind, err := stringField(fields, "type")
	if err != nil {
		return nil, invalid(err)
	}
	action, err := jsonAction(ProposalKind(kind), step, fields, tools)
	if err != nil {
		return nil, invalid(err)
	}
	return action, nil
}

// jsonAction returns the action that the fields of a JSON object describe. kind is the value of its field "type". The
// action is valid only if the error is nil; the error is one or more flaws.
func jsonAction(kind ProposalKind, step int, fields map[string]json.RawMessage, tools []Tool) (Action, error) {
	switch kind {
	case "final":
		content, err := stringField(fields, "content")
		return Final{Text: content}, errors.Join(err, onlyFields(fields, "type", "content"))
	case "ask_user":
		q, err := stringField(fields, "question")
		return AskUser{Question: q}, errors.Join(err, onlyFields(fields, "type", "question"))
	case "tool_call":
		name, err := stringField(fields, "name")
		args, ok := fields["arguments"]
		if !ok {
			err = errors.Join(err, flaw{InvalidMissingField, `"arguments" is missing`})
		}
		if err := errors.Join(err, onlyFields(fields, "type", "name", "arguments")); err != nil {
			return nil, err
		}
		call := ToolCall{ID: CallID(step, 0), WireID: fmt.Sprintf("call_%d_0", step), Tool: toolOfJSON(tools, name),
			Arguments: string(args)}
		return CallTools{Calls: []ToolCall{call}}, nil
	}
	return nil, flaw{InvalidUnknownType,
		fmt.Sprintf(`"type" is %q; it must be "final", "tool_call" or "ask_user"`, Truncate(string(kind), 40))}
}

// toolOfJSON returns the catalogue ID of a tool that a model names by catalogue ID or wire name. Models use both.
func toolOfJSON(tools []Tool, name string) string {
	for _, t := range tools {
		if t.ID == name {
			return t.ID
		}
	}
	return toolOfWire(tools, name)
}

// stringField returns the string at key. Its error is a flaw if the key is missing or its value is not a string or is
// blank.
func stringField(fields map[string]json.RawMessage, key string) (string, error) {
	raw, ok := fields[key]
	if !ok {
		return "", flaw{InvalidMissingField, fmt.Sprintf("%q is missing", key)}
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || len(raw) == 0 || raw[0] != '"' { // Unmarshal accepts null, too
		return "", flaw{InvalidField, fmt.Sprintf("%q must be a string", key)}
	}
	if strings.TrimSpace(s) == "" {
		return "", flaw{InvalidField, fmt.Sprintf("%q is empty", key)}
	}
	return s, nil
}

// onlyFields returns an error if fields has a key that is not allowed.
func onlyFields(fields map[string]json.RawMessage, allowed ...string) error {
	for key := range fields { //workflowcheck:ignore
		if !slices.Contains(allowed, key) {
			return flaw{InvalidUnknownField, "it has an unknown key; the keys are " + strings.Join(allowed, ", ")}
		}
	}
	return nil
}

// strictObject reads s as exactly one JSON object. Like CheckJSON, it refuses duplicate keys at any depth.
func strictObject(s string) (map[string]json.RawMessage, error) {
	if err := CheckJSON(s); err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s), &fields); err != nil || fields == nil {
		return nil, errors.New("it is not a JSON object")
	}
	return fields, nil
}

// The bounds of JSON that a model sends.
const (
	maxDepth  = 64
	maxValues = 1 << 16
)

// CheckJSON returns an error unless s is exactly one JSON value without duplicate keys, nested at most 64 deep and with
// at most 65,536 values.
func CheckJSON(s string) error {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	left := maxValues
	if err := walkValue(dec, 0, &left); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("the JSON is cut off")
		}
		return fmt.Errorf("it is not valid JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the JSON value")
	}
	return nil
}

// walkValue reads the next JSON value, and the values in it, from dec. depth is the number of objects and arrays
// around it; left is how many more values may be read.
func walkValue(dec *json.Decoder, depth int, left *int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested over %d deep", maxDepth)
	}
	if *left--; *left < 0 {
		return fmt.Errorf("it has more than %d values", maxValues)
	}
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	keys := map[string]bool{}
	for dec.More() {
		if open == '{' {
			if err := walkKey(dec, keys); err != nil {
				return err
			}
		}
		if err := walkValue(dec, depth+1, left); err != nil {
			return err
		}
	}
	_, err = dec.Token() // the closing delimiter
	return err
}

// walkKey reads the next key of an object from dec. It returns an error if seen already has the key, and otherwise
// adds it.
func walkKey(dec *json.Decoder, seen map[string]bool) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	key, ok := tok.(string)
	if !ok {
		return errors.New("an object's key is not a string")
	}
	if seen[key] {
		return fmt.Errorf("the key %q is repeated", Truncate(key, 40))
	}
	seen[key] = true
	return nil
}

// Truncate returns the beginning of s, at most n bytes, cut between runes. If it cuts, the result ends in an
// ellipsis, which is part of the n bytes; an n below 3, the size of the ellipsis, counts as 3. Invalid UTF-8 is
// replaced.
func Truncate(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD") // first: it may make s longer
	if len(s) <= n {
		return s
	}
	return printable.Head(s, n-len("…")) + "…"
}
