package ui

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A diff that shows less than the whole call hides what the call does.
func TestOnlyAWholeCallIsShownAsADiff(t *testing.T) {
	for _, arguments := range []string{
		`{"path":"a","old_string":"x","new_string":"y"}`,
		`{"file_path":"a","edits":[{"oldText":"x","newText":"y"}]}`,
	} {
		assert.Contains(t, Diff(arguments), "\n-x\n+y", arguments)
	}
	for _, arguments := range []string{
		`{"path":"a","old_string":"x","new_string":"EVIL","NEW_STRING":"y"}`,
		`{"path":"a","old_string":"x","new_string":"EVIL","new_string":"y"}`,
		`{"path":"a","old_string":"x","new_string":"y","command":"rm"}`,
		`{"path":"a","command":"rm","diff":"@@ -1 +1 @@\n-x\n+y"}`,
		`{"path":"a","edits":[{"oldText":"x","newText":"y"}],"dryRun":false}`,
		`{"path":"a","edits":[{"oldText":"x","newText":"y","at":3}]}`,
		`{"path":"a","edits":[7]}`, `{"path":7,"old_string":"x","new_string":"y"}`, `{"path":"a"}`, `["a"]`, `{"path"`, ``,
	} {
		assert.Empty(t, Diff(arguments), arguments)
	}
}
