package config

import (
	"encoding/json"
	"fmt"

	"github.com/everturn/everturn/workflows/turn"
)

// ClientTool is a tool whose calls a client runs.
type ClientTool struct {
	// Names the tool in tool IDs, client/<name>: letters, digits, underscores and dashes.
	Name string `toml:"name" required:"true" maxbytes:"64" example:"open_ticket"`
	// What the tool does, for the model.
	Description string `toml:"description"`
	// The JSON schema of the arguments, an object. Without one, there are none.
	Schema string `toml:"schema" example:"{\"type\":\"object\",\"properties\":{\"title\":{\"type\":\"string\"}}}"`
}

// AllClientTools returns the client tools of [[client_tools]].
func (c Config) AllClientTools() (list []turn.ClientTool) {
	for _, t := range c.ClientTools {
		list = append(list, turn.ClientTool{Name: t.Name, Description: t.Description, Schema: json.RawMessage(t.Schema)})
	}
	return list
}

// clientTools checks [[client_tools]].
func (v *validator) clientTools(c Config) {
	if err := turn.CheckClientTools(c.AllClientTools()); err != nil {
		v.add("client_tools", "is not valid: %v", err)
	}
	for i, t := range c.ClientTools {
		var object map[string]json.RawMessage
		if t.Schema != "" && (json.Unmarshal([]byte(t.Schema), &object) != nil || object == nil) {
			v.add(fmt.Sprintf("client_tools[%d].schema", i), "is not a JSON object")
		}
	}
}
