package chat

import (
	"encoding/json"
	"strings"
)

// details are the elements of reasoning_details, which OpenRouter needs back unchanged. A stream has the text of an
// element in pieces: consecutive texts are one element, and so are consecutive summaries.
type details []*detail

// detail is an element of details.
type detail struct {
	raw    json.RawMessage            // the whole element, if it is not joined with others
	fields map[string]json.RawMessage // otherwise its fields but the text
	kind   string                     // the type
	key    string                     // the name of the field with the text
	text   strings.Builder
}

// detailTexts are the fields with the text, by the type of an element.
var detailTexts = map[string]string{"reasoning.text": "text", "reasoning.summary": "summary"}

// add adds an element, or continues the last one.
func (d *details) add(raw json.RawMessage) {
	var head struct {
		Type string `json:"type"`
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &head) != nil || json.Unmarshal(raw, &fields) != nil || detailTexts[head.Type] == "" {
		*d = append(*d, &detail{raw: raw})
		return
	}
	key := detailTexts[head.Type]
	var text string
	_ = json.Unmarshal(fields[key], &text) // null, or no field: no text
	delete(fields, key)
	if n := len(*d); n > 0 && (*d)[n-1].kind == head.Type {
		last := (*d)[n-1]
		last.text.WriteString(text)
		for name, value := range fields { // the signature comes with the last piece
			if old := string(last.fields[name]); old == "" || old == "null" || old == `""` {
				last.fields[name] = value
			}
		}
		return
	}
	one := &detail{fields: fields, kind: head.Type, key: key}
	one.text.WriteString(text)
	*d = append(*d, one)
}

// MarshalJSON implements json.Marshaler.
func (d *detail) MarshalJSON() ([]byte, error) {
	if d.raw != nil {
		return d.raw, nil
	}
	text, err := json.Marshal(d.text.String())
	if err != nil {
		return nil, err
	}
	d.fields[d.key] = text
	return json.Marshal(d.fields)
}
