// Package docs holds what programs look up and what is therefore part of the program: the schema of its events.
package docs

import _ "embed"

//go:generate go test -run TestGenerated -update

// EventsSchema is the JSON schema (draft 2020-12) of one line of -o jsonl.
//
//go:embed events.schema.json
var EventsSchema []byte
