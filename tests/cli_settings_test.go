package tests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/tests/fakellm"
)

// TestCLIWarnsOfAWorkerWithOtherSettings checks that a changed policy which a running worker has not read is said to be
// without effect, before its turn can run what the user expects to be asked about.
func TestCLIWarnsOfAWorkerWithOtherSettings(t *testing.T) {
	t.Parallel()
	settings := asking(fakellm.Start(t, fakellm.Text("Done.")))
	h := newUserFolder(t, settings)
	h.worker()
	const warning = "began with other settings"
	assert.NotContains(t, h.everturn("run", "-s", "same", "Go.").exits(0).err.String(), warning)

	h.write("agent.toml", strings.Replace(h.read("agent.toml"), "[llm]", "[policy]\nask_risk = \"low\"\n[llm]", 1))
	assert.Contains(t, h.everturn("run", "-s", "changed", "Go.").exits(0).err.String(), warning)
	assert.Contains(t, h.everturn("send", "changed", "Again.").exits(0).err.String(), warning)
	assert.NotContains(t, h.everturn("run", "-q", "-s", "quiet", "Go.").exits(0).err.String(), warning)
	assert.Contains(t, h.everturn("doctor").out.String(), warning)
}
