package ui

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

const onePlan = `{"steps":[{"description":"look\u001b[2J","tool":"local/read_file"}]}`

func TestAPlanIsChangedInTheUsersEditor(t *testing.T) {
	for name, tc := range map[string]struct {
		editor, want, wrong string
	}{
		"changed": {editor: `sed -i s/look/see/`,
			want: `{"steps":[{"description":"see\u001b[2J","tool":"local/read_file"}]}`},
		"unchanged": {editor: "true"},
		"no JSON":   {editor: `sed -i s/.steps.//`, wrong: "no JSON"},
		"no steps":  {editor: `sed -i s/steps/stairs/`, wrong: "cannot be carried out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("VISUAL", tc.editor)
			cmd, changed, err := Editor(onePlan)
			require.NoError(t, err)
			require.NoError(t, cmd.Run())
			got, err := changed()
			if tc.wrong != "" {
				require.ErrorContains(t, err, tc.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, string(got))
			_, err = changed()
			assert.Error(t, err, "the file is removed")
		})
	}
	_, _, err := Editor("{")
	assert.Error(t, err)
}

func TestAPlanIsDrawnWithoutControls(t *testing.T) {
	p := plan.Progress{}.After(plan.Call{Inference: 1, Tool: plan.Tool, Arguments: onePlan, Outcome: plan.OK,
		Edit: json.RawMessage(onePlan)})
	assert.Equal(t, "plan: 0 of 1 step done, changed by the user\n  [>] 1. look[2J (local/read_file)", Plan(p))
	asked := turn.Request{ID: "1.0", Kind: turn.RequestApproval, Tool: plan.Tool, Arguments: onePlan}
	assert.NotEmpty(t, Steps(asked))
	asked.Tool = "mcp/other/plan"
	assert.Empty(t, Steps(asked))
}
