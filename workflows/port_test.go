package workflows

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestActivitiesGoByTheirMethodsNames(t *testing.T) {
	assert.Equal(t, "Begin", activityName(Activities.Begin))
	assert.Equal(t, "Infer", activityName(Activities.Infer))
	assert.Equal(t, "CallTool", activityName(Activities.CallTool))
	assert.Equal(t, "Finish", activityName(Activities.Finish))
}

// TestAWrongActivityArgumentDoesNotCompile shows the compiler's error for a file that is overlaid on this package.
func TestAWrongActivityArgumentDoesNotCompile(t *testing.T) {
	for name, c := range map[string]struct{ code, want string }{
		"wrong input":  {`call(ctx, Activities.Infer, CallInput{})`, "CallInput"},
		"wrong result": {`var out CallResult; out, _ = call(ctx, Activities.Infer, InferInput{}); _ = out`, "cannot use"},
		"no activity":  {`call(ctx, Activities.Close, InferInput{})`, "Activities.Close undefined"},
		"as it is":     {`_, _ = call(ctx, Activities.Infer, InferInput{})`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src := "package workflows\n\nimport \"go.temporal.io/sdk/workflow\"\n\nfunc wrong(ctx workflow.Context) { " +
				c.code + " }\n"
			out := compileOver(t, src)
			if c.want == "" {
				assert.Empty(t, out)
				return
			}
			assert.Contains(t, out, c.want)
		})
	}
}

// compileOver compiles this package with one more file and returns the compiler's output.
func compileOver(t *testing.T, src string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "wrong.go")
	require.NoError(t, os.WriteFile(file, []byte(src), 0o600))
	here, err := os.Getwd()
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{
		"Replace": map[string]string{filepath.Join(here, "wrong_overlay.go"): file}})
	require.NoError(t, err)
	overlayFile := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
	out, _ := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-overlay", overlayFile,
		".").CombinedOutput()
	return string(out)
}
