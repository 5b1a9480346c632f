package check

import (
	"maps"
	"slices"
	"strings"

	historypb "go.temporal.io/api/history/v1"

	"github.com/everturn/everturn/tests/replay"
)

// replay checks I6: every history replays on the current code, as strictly as the kept ones do.
func (c *checker) replay() {
	for _, name := range slices.Sorted(maps.Keys(c.Histories)) {
		if err := patiently(c.Histories[name]); err != nil {
			c.breaks(I6, "%s does not replay: %v", name, err)
		}
	}
}

// starved is the SDK's code for a workflow that did not yield within a second. On a busy machine this says nothing
// about the workflow, unless it happens every time.
const (
	starved        = "TMPRL1101"
	starvedRetries = 3
)

func patiently(h *historypb.History) error {
	err := replay.Run(h.GetEvents())
	for range starvedRetries {
		if err == nil || !strings.Contains(err.Error(), starved) {
			break
		}
		err = replay.Run(h.GetEvents())
	}
	return err
}
