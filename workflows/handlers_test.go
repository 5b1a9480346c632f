package workflows

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestTheSizeOfAMessageCountsAllOfIt checks that what a message narrows and carries counts for the size of the inbox,
// which Temporal keeps in the history.
func TestTheSizeOfAMessageCountsAllOfIt(t *testing.T) {
	assert.Greater(t, encodedSize(Message{Tools: []string{strings.Repeat("t", 400)}}), 400)
	assert.Greater(t, encodedSize(Message{Text: strings.Repeat("<", 100)}), 600, "escaped as JSON")
}
