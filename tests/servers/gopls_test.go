package servers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/config"
	"github.com/everturn/everturn/tests/loopback"
	"github.com/everturn/everturn/tests/servers/npm"
	"github.com/everturn/everturn/workflows/turn"
)

// buildGopls builds the pinned language server if it has not been built yet: a minute on two cores.
var buildGopls = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("go", "tool", "-modfile=tests/servers/gopls.mod", "-n", "gopls")
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("building gopls: %w\n%s", err, stderr.String())
	}
	return strings.TrimSpace(string(out)), nil
})

func gopls(t *testing.T) (program string) {
	t.Helper()
	program, err := buildGopls()
	if err != nil {
		npm.Missing(t, err)
	}
	return program
}

// module writes a small Go module with one error in it.
func module(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for name, content := range map[string]string{
		"go.mod": "module example.org/lamp\n\ngo 1.26\n",
		"light/light.go": "// Package light shines.\npackage light\n\n// Shine shines.\nfunc Shine(hours int) int { " +
			"return hours * 2 }\n",
		"keeper.go":        "package lamp\n\nimport \"example.org/lamp/light\"\n\nfunc Keep() int { return light.Shine(3) }\n",
		"wrong/mistake.go": "package wrong\n\nfunc Wrong() int { return \"text\" }\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// offline keeps gopls and the go command from accessing anything beyond this machine.
var offline = map[string]config.Secret{"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOVULNDB": "off"}

func TestGoplsOverStdio(t *testing.T) {
	t.Parallel()
	program := gopls(t)
	dir := module(t)
	askGopls(t, newRig(t, config.MCPServer{
		ID: "gopls", Transport: config.TransportStdio, Command: program, Args: []string{"mcp"}, Dir: dir, Env: offline,
	}), dir)
}

// Over HTTP gopls speaks the older transport.
func TestGoplsOverSSE(t *testing.T) {
	t.Parallel()
	program := gopls(t)
	dir := module(t)
	port, err := loopback.Port()
	require.NoError(t, err)
	address := fmt.Sprintf("127.0.0.1:%d", port)
	var environ []string
	for name, value := range offline {
		environ = append(environ, name+"="+string(value))
	}
	listening(t, port, dir, environ, program, "mcp", "-listen="+address)
	askGopls(t, newRig(t, config.MCPServer{ID: "gopls", Transport: config.TransportSSE, URL: "http://" + address}), dir)
}

func askGopls(t *testing.T, r *rig, dir string) {
	t.Helper()
	results := r.turn(
		ask("go_workspace", ""),
		ask("go_search", `{"query":"shine"}`),
		ask("go_file_context", `{"file":"%s/keeper.go"}`, dir),
		ask("go_package_api", `{"packagePaths":["example.org/lamp/light"]}`),
		ask("go_symbol_references", `{"file":"%s/light/light.go","symbol":"Shine"}`, dir),
		ask("go_diagnostics", `{"files":["%s/wrong/mistake.go"]}`, dir),
		ask("go_rename_symbol", `{"file":"%s/light/light.go","symbol":"Shine","new_name":"Glow"}`, dir),
		call{tool: "go_vulncheck", ends: turn.OutcomeError}, // its database is on the internet
	)
	assert.Contains(t, results[0], "example.org/lamp")
	assert.Contains(t, results[1], "Shine")
	assert.Contains(t, results[2], "light")
	assert.Contains(t, results[3], "func Shine(hours int) int")
	assert.Contains(t, results[4], "keeper.go")
	assert.Contains(t, results[5], "mistake.go")
	assert.Contains(t, results[6], "light.Glow(3)")
	assert.Contains(t, read(t, dir, "keeper.go"), "light.Shine(3)", "it says what to edit, and edits nothing")
	r.offersOnlyWhatWasCalled()
}
