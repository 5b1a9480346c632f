package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/everturn/everturn/internal/jsonbound"
)

// maxBody is the size of the largest request, in bytes: that of the attachments of one message in base64.
const maxBody = 16 << 20

// Bounds of a request's JSON: the encoders of all languages stay far below.
const (
	maxDepth  = 64
	maxValues = 100_000
)

// source says where a field of a route's input comes from.
type source string

// The sources, which are also the tags of the fields. The fields without one come from the body.
const (
	fromPath   source = "path"
	fromQuery  source = "query"
	fromHeader source = "header"
)

// parameter is a field of a route's input that does not come from the body.
type parameter struct {
	from  source
	name  string
	field reflect.StructField
}

// parameters returns those of an input type, in the order of its fields.
func parameters(in reflect.Type) (list []parameter) {
	for _, f := range reflect.VisibleFields(in) {
		for _, from := range []source{fromPath, fromQuery, fromHeader} {
			if name, ok := f.Tag.Lookup(string(from)); ok {
				list = append(list, parameter{from, name, f})
			}
		}
	}
	return list
}

// hasBody reports whether a route with this input reads a JSON body.
func hasBody(in reflect.Type) bool {
	return slices.ContainsFunc(reflect.VisibleFields(in), func(f reflect.StructField) bool {
		return !f.Anonymous && f.IsExported() && f.Tag.Get("json") != "-"
	})
}

// decode sets the struct that in points to from a request. The error is a *problem.
func decode(r *http.Request, in any) error {
	v := reflect.ValueOf(in).Elem()
	if hasBody(v.Type()) {
		if err := decodeBody(r, in); err != nil {
			return err
		}
	}
	var known []string
	query := r.URL.Query()
	for _, p := range parameters(v.Type()) {
		var text string
		switch p.from {
		case fromPath:
			text = r.PathValue(p.name)
		case fromQuery:
			known = append(known, p.name)
			text = query.Get(p.name)
		case fromHeader:
			text = r.Header.Get(p.name)
		}
		if text == "" {
			continue
		}
		if err := setText(v.FieldByIndex(p.field.Index), text); err != nil {
			return invalid(p.name, "%s: %v", p.name, err)
		}
	}
	_, anything := in.(interface{ keep(body []byte) })
	for name := range query {
		if !anything && !slices.Contains(known, name) {
			return invalid(name, "there is no query parameter %.80q here; there are: %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// setText sets a field to the value that a text stands for.
func setText(field reflect.Value, text string) (err error) {
	switch field.Kind() {
	case reflect.String:
		field.SetString(text)
	case reflect.Int64, reflect.Int:
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			return fmt.Errorf("%.80q is not an integer", text)
		}
		field.SetInt(n)
	case reflect.Bool:
		var b bool
		if b, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%.80q is neither true nor false", text)
		}
		field.SetBool(b)
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		return setText(field.Elem(), text)
	default:
		panic("no text becomes a " + field.Type().String())
	}
	return nil
}

// open is embedded in the input of a route that another API has defined: fields that the route does not know have no
// effect.
type open struct {
	raw json.RawMessage // the body
}

func (o *open) keep(body []byte) { o.raw = body }

// decodeBody decodes a body that is one JSON object, without unknown fields unless the input is open. An empty body is
// an empty object.
func decodeBody(r *http.Request, in any) error {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(large.Limit)
	case err != nil:
		return invalid("", "reading the body: %v", err)
	case len(body) == 0:
		return nil
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return &problem{status: http.StatusUnsupportedMediaType, kind: kindInvalid, code: "unsupported_media_type",
			message: "the body must be JSON: send the header Content-Type: application/json"}
	}
	var bound jsonbound.Scanner
	if bound.Add(body, maxDepth, maxValues) != jsonbound.None {
		return invalid("", "the body has more than %d values or %d levels", maxValues, maxDepth)
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	if o, ok := in.(interface{ keep(body []byte) }); ok {
		o.keep(body)
	} else {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(in); err != nil {
		return wrongBody(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return invalid("", "the body goes on after its JSON object")
	}
	return nil
}

// wrongBody returns the problem of a body that is not the JSON of its type.
func wrongBody(err error) *problem {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return invalid(wrong.Field, "%s must not be a %s", wrong.Field, wrong.Value)
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if _, name, ok := strings.Cut(text, "unknown field "); ok {
		return invalid(strings.Trim(name, `"`), "this route takes no field %s", name)
	}
	return invalid("", "the body is not a JSON object: %s", text)
}
