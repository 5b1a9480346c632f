package servers

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The server counts its thoughts: those of one turn go to one process.
func TestSequentialThinking(t *testing.T) {
	t.Parallel()
	r := newRig(t, stdioServer(t, "thinking", "@modelcontextprotocol/server-sequential-thinking"))
	results := r.turn(
		ask("sequentialthinking",
			`{"thought":"Where is the key?","nextThoughtNeeded":true,"thoughtNumber":1,"totalThoughts":2}`),
		ask("sequentialthinking",
			`{"thought":"Under the mat.","nextThoughtNeeded":false,"thoughtNumber":2,"totalThoughts":2}`),
	)
	assert.Contains(t, results[0], `"thoughtHistoryLength": 1`)
	assert.Contains(t, results[1], `"thoughtHistoryLength": 2`)
	r.offersOnlyWhatWasCalled()
}
