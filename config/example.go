package config

import _ "embed"

//go:embed example.toml
var example string

// Example returns a complete, commented agent.toml. As it stands it means the same as Default; settings without a
// default are in it as comments.
func Example() string { return example }
