package toolbox_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/toolbox"
	"github.com/everturn/everturn/activities/toolbox/files"
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
	l := toolbox.NewLocal()
	require.NoError(t, files.Register(l, t.TempDir(), files.Options{}))
	require.NoError(t, toolbox.AddTool(l, "sum", "Add numbers.", sum, toolbox.LocalActivity()))
	require.NoError(t, toolbox.AddTool(l, "nested", " Takes <all> & sundry.\n",
		func(context.Context, nestedIn) (sumOut, error) { return sumOut{}, nil }))
	require.NoError(t, toolbox.AddTool(l, "pointer", "", func(context.Context, *sumIn) (string, error) { return "", nil }))
	require.NoError(t, toolbox.AddTool(l, "object", "",
		func(context.Context, map[string]any) (string, error) { return "", nil }))
	require.NoError(t, toolbox.AddTool(l, "any", "", func(context.Context, any) (string, error) { return "", nil }))
	require.NoError(t, toolbox.AddTool(l, "empty", "", func(context.Context, struct{}) (string, error) { return "", nil }))
	got := map[string]string{}
	for _, d := range catalogue(t, newHost(t, toolbox.Options{}, l), "local").Tools {
		got[d.ID] = d.Hash[:16]
	}
	assert.Equal(t, map[string]string{
		"local/any": "7f508c1431ebab9f", "local/empty": "52c5f21a89f5b1b5", "local/list_files": "2720ce92b1835565",
		"local/nested": "759fe0b9e312dc96", "local/object": "d6d78e0a9ff5190a", "local/pointer": "9a004f07d6ccc6ab",
		"local/read_file": "3c6f58aa8e2bc312", "local/search_text": "a4ba5cc01a380d2c", "local/sum": "73ac940b7a93bb48",
	}, got)
}
