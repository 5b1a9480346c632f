package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestWorkerExitCodes checks that a worker that cannot start exits with the same codes as everturn.
func TestWorkerExitCodes(t *testing.T) {
	t.Parallel()
	const demo = "[llm]\nprovider = \"demo\"\n"
	h := newUserFolder(t, demo)
	inherits := newUserFolder(t, demo+"[[mcp.servers]]\nid = \"a\"\ncommand = \"cat\"\nenv_allow = [\"NO_SUCH_SECRET\"]\n")
	names := newUserFolder(t, demo+"[[mcp.servers]]\nid = \"a\"\ncommand = \"cat\"\nenv = { A = \"${NO_SUCH_SECRET}\" }\n")
	for name, c := range map[string]struct {
		code int
		says string
		in   *userFolder
		args []string
	}{
		"an argument":           {3, `"bogus"`, h, []string{"bogus"}},
		"a flag":                {3, "frobnicate", h, []string{"-frobnicate"}},
		"a setting":             {3, "runtime.max_steps", h, []string{"-set", "runtime.max_steps=-1"}},
		"no key":                {4, "OPENAI_API_KEY", h, []string{"-set", "llm.provider=openai"}},
		"no secret to inherit":  {4, "env_allow[0] names NO_SUCH_SECRET, which is not set", inherits, nil},
		"no secret to be given": {4, "NO_SUCH_SECRET, which is not set", names, nil},
		"no Temporal": {5, "no Temporal answers at 127.0.0.1:1", h,
			[]string{"-set", "temporal.address=127.0.0.1:1"}},
	} {
		w := c.in.worker(c.args...).wait()
		assert.Equal(t, c.code, w.code(), "%s: %s", name, w.err.String())
		assert.Contains(t, w.err.String(), c.says, name)
	}
}
