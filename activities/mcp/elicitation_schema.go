package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/everturn/everturn/activities/tools/schema"
	"github.com/everturn/everturn/internal/printable"
)

// maxFields bounds the fields of one elicitation.
const maxFields = 32

// The keywords of an elicitation's schema (MCP, elicitation: flat objects of primitive values and choices). Other
// keywords are dropped, except those in nestedKeywords: a field that has one is refused, because it is not flat.
var (
	formKeywords  = []string{"type", "title", "description", "required"}
	fieldKeywords = []string{
		"type", "title", "description", "default", "enum", "enumNames", "oneOf", "minLength", "maxLength", "pattern",
		"format",
		"minimum", "maximum", "minItems", "maxItems",
	}
	choiceKeywords = []string{"type", "enum", "anyOf"}
	nestedKeywords = []string{"properties", "$ref", "allOf", "not", "if", "patternProperties", "$defs", "definitions",
		"prefixItems"}
	fieldTypes = []string{"string", "number", "integer", "boolean", "array"}
)

// flatSchema checks that raw is the schema of a form: an object whose fields are primitive values or choices. It
// returns the schema in canonical JSON, with only the supported keywords, sanitized for display.
func flatSchema(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > maxElicitationSchema {
		return nil, fmt.Errorf("its form has over %d bytes", maxElicitationSchema)
	}
	var form map[string]any
	if err := json.Unmarshal(raw, &form); err != nil {
		return nil, errors.New("its form is not a JSON schema")
	}
	if form == nil { // null is a form without fields
		form = map[string]any{}
	}
	if t, ok := form["type"]; ok && t != "object" {
		return nil, errors.New(`its form is not of type "object"`)
	}
	fields, _ := form["properties"].(map[string]any) // anything but an object means no fields
	if len(fields) > maxFields {
		return nil, fmt.Errorf("its form has %d fields; the maximum is %d", len(fields), maxFields)
	}
	out := keepKeywords(form, formKeywords)
	out["type"] = "object"
	properties := map[string]any{}
	for name, f := range fields {
		field, err := checkField(name, f)
		if err != nil {
			return nil, err
		}
		properties[name] = field
	}
	out["properties"] = properties
	canonical, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("writing its form: %w", err)
	}
	if _, err := schema.Resolve(canonical); err != nil {
		return nil, fmt.Errorf("its form cannot be used: %s", printable.Line(err.Error(), 200))
	}
	return canonical, nil
}

// keepKeywords returns a copy of a schema with only the listed keywords. It sanitizes the title and the description,
// which are displayed.
func keepKeywords(schema map[string]any, keywords []string) map[string]any {
	out := map[string]any{}
	for _, k := range keywords {
		v, ok := schema[k]
		if !ok {
			continue
		}
		if text, is := v.(string); is && (k == "title" || k == "description") {
			v = printable.Line(text, 1000)
		}
		out[k] = v
	}
	return out
}

// checkField checks the schema v of one field, which must be a string, a number, a boolean, a choice or a list of
// choices. It returns the schema with only the supported keywords.
func checkField(name string, v any) (map[string]any, error) {
	bad := func(what string) (map[string]any, error) {
		return nil, fmt.Errorf("the field %q of its form %s", printable.Line(name, 40), what)
	}
	if name == "" || len(name) > maxElicitationKey || printable.Line(name, maxElicitationKey) != name {
		return bad("has a name that cannot be shown")
	}
	field, ok := v.(map[string]any)
	if !ok {
		return bad("is not a schema")
	}
	for _, k := range nestedKeywords {
		if _, ok := field[k]; ok {
			return bad("is not flat")
		}
	}
	kind, _ := field["type"].(string)
	if !slices.Contains(fieldTypes, kind) {
		return bad("is not a string, number, integer, boolean or array of choices")
	}
	out := keepKeywords(field, fieldKeywords)
	if !areDisplayable(out["enum"]) || !sanitizeChoices(out["oneOf"]) {
		return bad("has choices that cannot be shown")
	}
	if kind != "array" {
		return out, nil
	}
	items, ok := field["items"].(map[string]any)
	hasChoices := items["enum"] != nil || items["anyOf"] != nil
	if !ok || !hasChoices || !areDisplayable(items["enum"]) || !sanitizeChoices(items["anyOf"]) {
		return bad("is a list of something else than choices")
	}
	out["items"] = keepKeywords(items, choiceKeywords)
	return out, nil
}

// areDisplayable reports whether choices, the value of enum in a schema, is a list of strings that sanitizing does not
// change. A user's choice is sent back to the server, so the strings must not be changed. nil, for no enum, is
// accepted.
func areDisplayable(choices any) bool {
	if choices == nil {
		return true
	}
	list, ok := choices.([]any)
	for _, c := range list {
		word, is := c.(string)
		ok = ok && is && len(word) <= 1000 && printable.Sanitize(word) == word
	}
	return ok && len(list) > 0
}

// sanitizeChoices reports whether choices, the value of oneOf or anyOf in a schema, is a list of displayable constants
// with optional titles. It sanitizes the titles and drops other keywords in place. nil, for no choices, is accepted.
func sanitizeChoices(choices any) bool {
	if choices == nil {
		return true
	}
	list, ok := choices.([]any)
	for i, c := range list {
		choice, is := c.(map[string]any)
		if !is || !areDisplayable([]any{choice["const"]}) {
			return false
		}
		list[i] = keepKeywords(choice, []string{"const", "title", "description"})
	}
	return ok && len(list) > 0
}
