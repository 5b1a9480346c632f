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

	"github.com/everturn/everturn/starter/internal/ui/terminal"
)

// Parse converts what the user types to the field's value. It accepts the number of a choice unless a number could be a
// choice's own name.
func (f Field) Parse(text string) (json.RawMessage, error) { return f.parseAll([]string{text}) }

// parseAll is Parse for a field that may be given several times. Only a field of KindChoices takes more than one text.
func (f Field) parseAll(texts []string) (json.RawMessage, error) {
	value, err := f.typed(texts)
	if err == nil {
		err = f.fits(value)
	}
	if err != nil {
		return nil, f.wrong(err)
	}
	encoded, err := marshal(value)
	if err != nil {
		return nil, f.wrong(err)
	}
	return encoded, nil
}

// wrong adds the field's name to an error.
func (f Field) wrong(err error) error {
	return fmt.Errorf("%s: %w", terminal.Line(f.Name, shownName), err)
}

func (f Field) missing() error { return f.wrong(fmt.Errorf("it is required (%s)", f.takes())) }

// typed converts what the user typed to a value of the field's kind.
func (f Field) typed(texts []string) (any, error) {
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
		return nil, fmt.Errorf("%q is not JSON: write text in double quotes", terminal.Line(text, shownText))
	}
	return json.RawMessage(bare), nil
}

// number matches a JSON number (RFC 8259, section 6).
var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// numberOf keeps a number as it was typed, so that no digit is lost.
func numberOf(text string) (any, error) {
	plain := strings.TrimPrefix(text, "+")
	if !number.MatchString(plain) {
		return nil, fmt.Errorf("%q is not a number: write it like 3 or 3.5", terminal.Line(text, shownText))
	}
	return json.Number(plain), nil
}

func yesOrNo(text string) (any, error) {
	switch strings.ToLower(text) {
	case "y", "yes", "true", "on", "1":
		return true, nil
	case "n", "no", "false", "off", "0":
		return false, nil
	}
	return nil, fmt.Errorf("%q is not yes or no", terminal.Line(text, shownText))
}

// chosen parses several choices: one in each text, or several separated by commas.
func (f Field) chosen(texts []string) (any, error) {
	out := []string{}
	for _, text := range texts {
		parts := strings.Split(text, ",")
		if slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == text }) {
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

// choice finds the choice that a text names, by its value, its title or its number.
func (f Field) choice(text string) (string, error) {
	for _, same := range []func(Option) bool{
		func(o Option) bool { return o.Value == text },
		func(o Option) bool { return strings.EqualFold(o.Value, text) },
		func(o Option) bool { return o.Title != "" && strings.EqualFold(o.Title, text) },
	} {
		var found []Option
		for _, o := range f.Options {
			if same(o) && !slices.ContainsFunc(found, func(p Option) bool { return p.Value == o.Value }) {
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
	return "", fmt.Errorf("%q is not one of the choices: %s", terminal.Line(text, shownText), f.optionNames())
}

// byNumber reports whether the user may name choices by number. It is false if a number could be a choice's own name.
func (f Field) byNumber() bool {
	return !slices.ContainsFunc(f.Options, func(o Option) bool {
		_, value := strconv.Atoi(strings.TrimSpace(o.Value))
		_, title := strconv.Atoi(strings.TrimSpace(o.Title))
		return value == nil || title == nil
	})
}

// check checks a JSON value against the field's kind and bounds.
func (f Field) check(value json.RawMessage) error {
	v, err := f.decoded(value)
	if err == nil {
		err = f.fits(v)
	}
	if err != nil {
		return f.wrong(err)
	}
	return nil
}

// decoded decodes a JSON value, which must be of the field's kind.
func (f Field) decoded(value json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	ok := true
	switch f.Kind {
	case KindText, KindChoice:
		_, ok = v.(string)
	case KindInteger, KindNumber:
		_, ok = v.(json.Number)
	case KindYesNo:
		_, ok = v.(bool)
	case KindChoices:
		var list []string
		ok = json.Unmarshal(value, &list) == nil && list != nil
		v = list
	}
	if !ok {
		return nil, fmt.Errorf("%s does not fit: the field takes %s", terminal.Line(string(value), shownText), f.takes())
	}
	return v, nil
}

// fits checks a value of the field's kind against the field's bounds.
func (f Field) fits(value any) error {
	if f.Kind == KindJSON {
		return nil // only the server can check it
	}
	switch v := value.(type) {
	case json.Number:
		return f.fitsNumber(v)
	case string:
		if f.Kind == KindChoice {
			return f.isOption(v)
		}
		if err := f.within(float64(utf8.RuneCountInString(v)), "characters"); err != nil {
			return err
		}
		return f.formatted(v)
	case []string:
		for _, one := range v {
			if err := f.isOption(one); err != nil {
				return err
			}
		}
		return f.within(float64(len(v)), "choices")
	}
	return nil
}

func (f Field) isOption(value string) error {
	if slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == value }) {
		return nil
	}
	return fmt.Errorf("%q is not one of the choices: %s", terminal.Line(value, shownText), f.optionNames())
}

func (f Field) fitsNumber(v json.Number) error {
	n, err := v.Float64()
	switch {
	case err != nil:
		return fmt.Errorf("%s is too large a number", terminal.Line(string(v), shownText))
	case f.Kind == KindInteger && n != math.Trunc(n):
		return fmt.Errorf("%s is not a whole number", terminal.Line(string(v), shownText))
	}
	return f.within(n, "")
}

// within checks a number against the bounds. unit is what n counts; empty if n is the value itself.
func (f Field) within(n float64, unit string) error {
	if (f.Min == nil || n >= *f.Min) && (f.Max == nil || n <= *f.Max) {
		return nil
	}
	if unit == "" {
		return fmt.Errorf("it must be %s", f.bounds())
	}
	return fmt.Errorf("it has %s %s and must have %s", plain(n), unit, f.bounds())
}

// formatted checks a text against the field's format, if it is one of the protocol's.
func (f Field) formatted(text string) error {
	var ok bool
	switch f.Format {
	case "email":
		a, err := mail.ParseAddress(text)
		ok = err == nil && a.Address == text
	case "uri":
		u, err := url.Parse(text)
		ok = err == nil && u.IsAbs()
	case "date":
		_, err := time.Parse(time.DateOnly, text)
		ok = err == nil
	case "date-time":
		_, err := time.Parse(time.RFC3339, text)
		ok = err == nil
	default:
		return nil
	}
	if !ok {
		return fmt.Errorf("%q is not a valid %s", terminal.Line(text, shownText), formats[f.Format])
	}
	return nil
}

// formats describes the protocol's formats in words.
var formats = map[string]string{
	"email": "email address", "uri": "URL such as https://example.org",
	"date": "date such as 2026-01-31", "date-time": "time such as 2026-01-31T12:00:00Z",
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
