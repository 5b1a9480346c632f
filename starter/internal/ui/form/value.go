package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
)

// Parse converts a text that the user typed to the field's value as JSON. The user may give a choice by its number,
// from 1, unless the value or the title of a choice is a number.
func (f Field) Parse(text string) (json.RawMessage, error) { return f.parseAll([]string{text}) }

// parseAll is like Parse, for all texts that the user gave for the field. Only a field of KindChoices accepts more than
// one.
func (f Field) parseAll(texts []string) (json.RawMessage, error) {
	value, err := f.convert(texts)
	if err != nil {
		return nil, f.withName(err)
	}
	encoded, err := marshal(value)
	if err != nil {
		return nil, f.withName(err)
	}
	if err := f.check(encoded); err != nil {
		return nil, err
	}
	return encoded, nil
}

// withName adds the field's name to an error.
func (f Field) withName(err error) error {
	return fmt.Errorf("%s: %w", termsafe.Line(f.Name, shownName), err)
}

var errMissing = errors.New("it is required")

// missing returns the error for a required field without a value.
func (f Field) missing() error { return f.withName(fmt.Errorf("%w (%s)", errMissing, f.takes())) }

// valueOf is like Parse, but an empty line means the default. Without a default, it returns nil for an optional field
// and an error for a required one.
func (f Field) valueOf(line string) (json.RawMessage, error) {
	switch {
	case strings.TrimSpace(line) != "":
		return f.Parse(line)
	case f.Required && f.Default == nil:
		return nil, f.missing()
	}
	return f.Default, nil
}

// convert converts the texts that the user gave to a Go value of the field's kind, which marshal encodes.
func (f Field) convert(texts []string) (any, error) {
	if f.Kind == KindChoices {
		return f.chosen(texts)
	}
	if len(texts) > 1 {
		return nil, errors.New("it is given twice but takes one value")
	}
	text := texts[0]
	if !utf8.ValidString(text) {
		return nil, errors.New("it is not valid UTF-8")
	}
	bare := strings.TrimSpace(text)
	switch f.Kind {
	case KindText:
		return text, nil
	case KindInteger, KindNumber:
		return numberOf(bare)
	case KindYesNo:
		return yesOrNo(bare)
	case KindChoice:
		return f.choice(bare)
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%q is not JSON: write text in double quotes", termsafe.Line(text, shownText))
	}
	return json.RawMessage(bare), nil
}

// number matches a JSON number (RFC 8259, section 6).
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// numberOf parses a number. It returns the digits as the user typed them, because a float64 could lose some.
func numberOf(text string) (any, error) {
	plain := strings.TrimPrefix(text, "+")
	if !number.MatchString(plain) {
		return nil, fmt.Errorf("%q is not a number: write it like 3 or 3.5", termsafe.Line(text, shownText))
	}
	return json.Number(plain), nil
}

// yesOrNo parses a boolean.
func yesOrNo(text string) (any, error) {
	switch strings.ToLower(text) {
	case "y", "yes", "true", "on", "1":
		return true, nil
	case "n", "no", "false", "off", "0":
		return false, nil
	}
	return nil, fmt.Errorf("%q is not yes or no", termsafe.Line(text, shownText))
}

// chosen parses texts of choices and returns the values of the choices, each once. A text is one choice, or several
// that are separated by commas.
func (f Field) chosen(texts []string) (any, error) {
	out := []string{}
	for _, text := range texts {
		parts := strings.Split(text, ",")
		if f.isOption(text) { // a choice may contain commas itself
			parts = []string{text}
		}
		for _, part := range parts {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			value, err := f.choice(part)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(out, value) {
				out = append(out, value)
			}
		}
	}
	return out, nil
}

// choice returns the value of the choice that a text names: by its exact value, by its value or its title in any letter
// case, or by its number. A name that fits several choices does not count.
func (f Field) choice(text string) (string, error) {
	for _, matches := range []func(Option) bool{
		func(o Option) bool { return o.Value == text },
		func(o Option) bool { return strings.EqualFold(o.Value, text) },
		func(o Option) bool { return o.Title != "" && strings.EqualFold(o.Title, text) },
	} {
		var found []Option
		for _, o := range f.Options {
			if matches(o) && !slices.ContainsFunc(found, func(p Option) bool { return p.Value == o.Value }) {
				found = append(found, o)
			}
		}
		if len(found) == 1 {
			return found[0].Value, nil
		}
	}
	n, err := strconv.Atoi(text)
	if f.byNumber() && err == nil && n >= 1 && n <= len(f.Options) {
		return f.Options[n-1].Value, nil
	}
	return "", fmt.Errorf("%q is not one of the choices: %s", termsafe.Line(text, shownText), f.optionNames())
}

// byNumber reports whether the user may give choices by their number. It is false if the value or the title of a choice
// is a number, because the number would be ambiguous.
func (f Field) byNumber() bool {
	return !slices.ContainsFunc(f.Options, func(o Option) bool {
		_, valueErr := strconv.Atoi(strings.TrimSpace(o.Value))
		_, titleErr := strconv.Atoi(strings.TrimSpace(o.Title))
		return valueErr == nil || titleErr == nil
	})
}

// check returns an error if a JSON value does not have the field's kind or exceeds its bounds.
func (f Field) check(value json.RawMessage) error {
	if f.fits(value) {
		return nil
	}
	shown := termsafe.Line(string(value), shownText)
	return f.withName(fmt.Errorf("%s does not fit: the field takes %s", shown, f.shape()))
}

// fits reports whether a JSON value has the field's kind, and is within its bounds and in its format.
func (f Field) fits(value json.RawMessage) bool {
	if f.Kind == KindJSON {
		return json.Valid(value) // only the server can check it
	}
	switch v, err := decodedAs[any](value); v := v.(type) {
	case string:
		if f.Kind == KindChoice {
			return f.isOption(v)
		}
		return f.Kind == KindText && f.within(float64(utf8.RuneCountInString(v))) && f.formatted(v)
	case float64:
		whole := f.Kind == KindInteger && v == math.Trunc(v)
		return err == nil && (whole || f.Kind == KindNumber) && f.within(v)
	case bool:
		return f.Kind == KindYesNo
	case []any:
		list, err := decodedAs[[]string](value)
		unknown := slices.ContainsFunc(list, func(s string) bool { return !f.isOption(s) })
		return err == nil && f.Kind == KindChoices && !unknown && f.within(float64(len(list)))
	}
	return false
}

func decodedAs[T any](value json.RawMessage) (v T, err error) {
	err = json.Unmarshal(value, &v)
	return v, err
}

func (f Field) isOption(value string) bool {
	return slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == value })
}

// within reports whether n, the value of a number, the length of a text or the count of choices, is within the bounds.
func (f Field) within(n float64) bool {
	return (f.Min == nil || n >= *f.Min) && (f.Max == nil || n <= *f.Max)
}

// formatted reports whether a text has the field's format. A format that the protocol does not define is ignored.
func (f Field) formatted(text string) bool {
	format, known := formats[f.Format]
	return !known || format.valid(text)
}

// formats are the formats of texts that the protocol defines: their description, and a check.
var formats = map[string]struct {
	words string
	valid func(string) bool
}{
	"email": {"email address", func(s string) bool {
		a, err := mail.ParseAddress(s)
		return err == nil && a.Address == s
	}},
	"uri": {"URL such as https://example.org", func(s string) bool {
		u, err := url.Parse(s)
		return err == nil && u.IsAbs()
	}},
	"date":      {"date such as 2026-01-31", func(s string) bool { return isTime(time.DateOnly, s) }},
	"date-time": {"time such as 2026-01-31T12:00:00Z", func(s string) bool { return isTime(time.RFC3339, s) }},
}

func isTime(layout, s string) bool {
	_, err := time.Parse(layout, s)
	return err == nil
}

// marshal encodes a value as JSON without HTML escaping.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
