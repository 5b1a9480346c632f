package tools_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/activities/tools"
	"github.com/everturn/everturn/activities/tools/canvas"
	"github.com/everturn/everturn/activities/tools/files"
	"github.com/everturn/everturn/internal/redact"
	"github.com/everturn/everturn/internal/workspace"
)

// TestToolsMaskSecretsBeforeTheyCut reads files with secrets from every offset and with every limit, and searches them
// with patterns that match in the middle of a secret: no result has a part of one. It changes the files, too: no change
// leaves a part of a secret.
func TestToolsMaskSecretsBeforeTheyCut(t *testing.T) {
	const key, lines = "KEY:5E1F09C2/Z8Q7", "LINE:ONE\nLINE:TWO\nLINE:END"
	secrets := redact.New()
	secrets.Add(key, lines)
	reg := tools.New(tools.Options{Secrets: secrets}, nil)
	t.Cleanup(func() { assert.NoError(t, reg.Close()) })
	dir := t.TempDir()
	text := "a=" + key + " b=" + base64.StdEncoding.EncodeToString([]byte(key)) + "\nc=" + lines + "\nend\n"
	long := strings.Repeat("x", 70_000) + key + strings.Repeat("y", 64<<10-600) + key
	for name, content := range map[string]string{"small": text, "long": long} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "begin"}} {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	store, err := workspace.Open(t.Context(), workspace.Options{Repo: dir, State: filepath.Join(t.TempDir(), ".everturn")})
	require.NoError(t, err)
	require.NoError(t, canvas.Register(reg, canvas.Roots{Store: store}, files.Options{}, nil))
	encoded := base64.StdEncoding.EncodeToString([]byte(key))
	calls := 0
	result := func(id, format string, args ...any) string {
		req := request(t, reg, id, fmt.Sprintf(format, args...))
		req.CallID = fmt.Sprintf("3.%d", calls) // a change is made once for each call
		calls++
		res, err := reg.Call(t.Context(), req)
		require.NoError(t, err)
		out := res.Text
		for _, secret := range []string{key, strings.ReplaceAll(lines, "\n", ""), encoded[2 : len(encoded)-4]} {
			for at := range len(secret) - 3 {
				require.NotContains(t, out, secret[at:at+4], id+" "+fmt.Sprintf(format, args...))
			}
		}
		return out
	}

	assert.True(t, strings.HasPrefix(result("local/read_file", `{"path":"small"}`), "a=[redacted]******* b="))
	for offset := range text {
		for limit := 4; limit <= 20; limit++ {
			result("local/read_file", `{"path":"small","offset":%d,"limit":%d}`, offset, limit)
		}
	}
	for _, offset := range []int{70_000 - 1, 70_000 + 4, 70_000 + len(key), len(long) - len(key)/2} {
		result("local/read_file", `{"path":"long","offset":%d}`, offset)
	}
	assert.Contains(t, result("local/search_text", `{"query":"a=","path":"small"}`), "small:1: a=[redacted]")
	assert.Contains(t, result("local/search_text", `{"query":"end","path":"small"}`), "small:5: end")
	for _, query := range []string{".", "xxx$", "x{100}[^x]", "KEY:", "E1F0", ":ONE", ":TWO", "yyyyy[^y]{9}", "Q7", encoded[4:12]} {
		b, err := json.Marshal(query)
		require.NoError(t, err)
		result("local/search_text", `{"query":%s,"regexp":true}`, b)
	}

	const edit = `{"path":"small","old_string":%q,"new_string":"-","replace_all":true}`
	for _, old := range []string{"a=KEY", "a=XEY", "Q7 b", ":", "/"} {
		assert.Contains(t, result("local/edit_file", edit, old), "small does not contain old_string",
			"the result reveals no part")
	}
	for _, old := range []string{"\n", "*", "a=[redacted]", "a=[red", "* b"} {
		assert.Contains(t, result("local/edit_file", edit, old), "would alter a secret in small", old)
	}
	assert.Contains(t, result("local/patch_file", `{"path":"small","patch":"@@ -3,0 +3 @@\n+x\n"}`),
		"would alter a secret in small")
	assert.Contains(t, result("local/edit_file", edit, "end"), "1 replaced, the first in line 5")
	changed, err := os.ReadFile(filepath.Join(store.Path("", "s"), "small"))
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(text, "end", "-", 1), string(changed))

	// The diff is cut in one of the keys.
	result("local/write_file", `{"path":"new","content":"%s"}`, strings.Repeat("z", 64<<10-1500)+strings.Repeat(key, 100))
	assert.Contains(t, result("local/canvas_diff", `{"path":"new"}`), "[cut: ")
}
