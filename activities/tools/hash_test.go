package tools_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/files"
)

type nestedIn struct {
	Name  string            `json:"name" jsonschema:"a name"`
	Tags  []string          `json:"tags,omitempty"`
	Extra map[string]int    `json:"extra,omitempty"`
	Inner *innerIn          `json:"inner,omitempty"`
	All   []innerIn         `json:"all"`
	Any   any               `json:"any,omitempty"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Time  time.Time         `json:"time,omitzero"`
	Maybe map[string]*int64 `json:"maybe,omitempty"`
}

type innerIn struct {
	Zebra float64 `json:"zebra"`
	Apple bool    `json:"apple" jsonschema:"true for apples"`
}

// TestTheHashesOfLocalToolsStay pins the hashes of local tools: turns that are waiting hold them, and a tool whose hash
// changed is not called.
func TestTheHashesOfLocalToolsStay(t *testing.T) {
	reg := newRegistry(t)
	require.NoError(t, files.Register(reg, t.TempDir(), files.Options{}))
	require.NoError(t, tools.Add(reg, "sum", "Add numbers.", sum, tools.LocalActivity()))
	require.NoError(t, tools.Add(reg, "nested", " Takes <all> & sundry.\n",
		func(context.Context, nestedIn) (sumOut, error) { return sumOut{}, nil }))
	require.NoError(t, tools.Add(reg, "pointer", "", func(context.Context, *sumIn) (string, error) { return "", nil }))
	require.NoError(t, tools.Add(reg, "object", "",
		func(context.Context, map[string]any) (string, error) { return "", nil }))
	require.NoError(t, tools.Add(reg, "any", "", func(context.Context, any) (string, error) { return "", nil }))
	require.NoError(t, tools.Add(reg, "empty", "", func(context.Context, struct{}) (string, error) { return "", nil }))
	got := map[string]string{}
	for _, d := range reg.Catalogues(t.Context())[0].Tools {
		got[d.ID] = d.Hash[:16]
	}
	assert.Equal(t, map[string]string{
		"local/any": "36cb7ffa07fb629d", "local/empty": "50b3799528f5b942", "local/list_files": "93e1183df72bafd5",
		"local/nested": "f5212ab6907838db", "local/object": "70e5c0d416b21152", "local/pointer": "4aa9e8a975ea2758",
		"local/read_file": "8d151e86cf40a323", "local/search_text": "688b879db964275b", "local/sum": "6cd38b2ed4d5abd0",
	}, got)
}
