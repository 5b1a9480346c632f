package config

import _ "embed"

//go:generate go test -run TestGenerated -update

//go:embed example.toml
var example string

//go:embed schema.json
var schema []byte

// Example returns a complete, commented agent.toml. As it stands it means the same as Default; settings without a
// default are in it as comments.
func Example() string { return example }

// Schema returns the JSON schema (draft 2020-12) of agent.toml, for editors.
func Schema() []byte { return schema }
