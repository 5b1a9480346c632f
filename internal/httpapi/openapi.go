package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/everturn/everturn/internal/version"
	"github.com/everturn/everturn/workflows/turn"
)

// openAPIVersion is the version of the specification: the first one that describes streams of events.
const openAPIVersion = "3.2.0"

// object is a JSON object.
type object = map[string]any

// describe returns the OpenAPI document of the routes.
func describe(routes []route) (object, error) {
	d := describer{schemas: object{}}
	paths := object{}
	for _, rt := range routes {
		operations, ok := paths[rt.path].(object)
		if !ok {
			operations = object{}
			paths[rt.path] = operations
		}
		operation, err := d.operation(rt)
		if err != nil {
			return nil, fmt.Errorf("describing %s %s: %w", rt.method, rt.path, err)
		}
		operations[strings.ToLower(rt.method)] = operation
	}
	return object{
		"openapi": openAPIVersion,
		"info": object{"title": "Everturn", "version": version.String(),
			"description": "Durable agent turns: sessions, messages, events, requests and decisions."},
		"paths": paths,
		"components": object{"schemas": d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer",
				"description": "A token of `everturn tokens create`."}}},
	}, nil
}

func (c *call) openAPI(context.Context, none) (object, error) { return c.server.document, nil }

// describer makes the parts of the document.
type describer struct {
	schemas object // by the name of the Go type
}

// operation describes a route.
func (d describer) operation(rt route) (object, error) {
	op := object{"summary": rt.about, "operationId": rt.name}
	if rt.right != "" {
		op["security"] = []object{{"token": []string{}}}
		op["description"] = fmt.Sprintf("Needs the right %q.", rt.right)
	}
	var described []object
	for _, p := range parameters(rt.in) {
		schema, err := schemaOf(p.field.Type)
		if err != nil {
			return nil, err
		}
		one := object{"name": p.name, "in": string(p.from), "schema": schema, "required": p.from == fromPath}
		if about := p.field.Tag.Get("jsonschema"); about != "" {
			one["description"] = about
		}
		described = append(described, one)
	}
	if len(described) > 0 {
		op["parameters"] = described
	}
	if hasBody(rt.in) {
		ref, err := d.ref(rt.in, true)
		if err != nil {
			return nil, err
		}
		op["requestBody"] = object{"content": object{"application/json": object{"schema": ref}}}
	}
	response, err := d.response(rt)
	if err != nil {
		return nil, err
	}
	failed, err := d.ref(reflect.TypeFor[problemBody](), false)
	if err != nil {
		return nil, err
	}
	op["responses"] = object{fmt.Sprint(rt.status): response, "default": object{"description": "An error.",
		"content": object{"application/json": object{"schema": failed}}}}
	return op, nil
}

// response describes the response of a route without an error.
func (d describer) response(rt route) (object, error) {
	content := object{}
	if rt.media != "" {
		content[rt.media] = object{}
	}
	if rt.out != nil {
		ref, err := d.ref(rt.out, false)
		if err != nil {
			return nil, err
		}
		content["application/json"] = object{"schema": ref}
	}
	if rt.event != nil {
		ref, err := d.ref(rt.event, false)
		if err != nil {
			return nil, err
		}
		content["text/event-stream"] = object{"itemSchema": object{"type": "object", "properties": object{
			"id":   object{"type": "string", "description": "where a stream goes on with Last-Event-ID"},
			"data": object{"type": "string", "contentMediaType": "application/json", "contentSchema": ref}}}}
	}
	return object{"description": http.StatusText(rt.status), "content": content}, nil
}

// ref returns a reference to the schema of a type, and adds the schema. closed means that its objects have no other
// fields.
func (d describer) ref(t reflect.Type, closed bool) (object, error) {
	name := t.Name()
	if name == "" { // such as the document itself
		return object{"type": "object"}, nil
	}
	name = strings.ToUpper(name[:1]) + name[1:]
	if _, ok := d.schemas[name]; !ok {
		schema, err := schemaOf(t)
		if err != nil {
			return nil, err
		}
		if !closed {
			extensible(schema)
		}
		d.schemas[name] = schema
	}
	return object{"$ref": "#/components/schemas/" + name}, nil
}

// schemaOf returns the JSON schema of a type.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	return jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[turn.USD]():        {Type: "number"},
	}})
}

// extensible lets the objects of a schema have further fields: a newer server may send them, and readers leave them
// out.
func extensible(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil { // the schema that nothing matches
		s.AdditionalProperties = nil
	}
	extensible(s.AdditionalProperties)
	extensible(s.Items)
	for _, p := range s.Properties {
		extensible(p)
	}
}
