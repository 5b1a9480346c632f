package tests

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCLIDoctorNoticesAMissingRole(t *testing.T) {
	t.Parallel()
	h := newUserFolder(t, "[llm]\nprovider = \"demo\"\n")
	says := func(line string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return strings.Contains(h.everturn("doctor").exits(0).out.String(), line)
		}, within, 100*time.Millisecond, line)
	}
	h.worker("--set", "worker.roles=turns,tools")
	says(`-inference-demo: start one with the role "inference"`)
	h.worker("--set", "worker.roles=inference")
	says("ok    worker: 1 polling task queue")
}
