package call

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

// TestTheNameOfWhatIsKeptLeavesRoomForTheText checks that the artifact's name is added to a result's text and does not
// replace it. A text that was cut to its maximum length does not grow.
func TestTheNameOfWhatIsKeptLeavesRoomForTheText(t *testing.T) {
	a := &Runner{}
	binary := a.presentable(turn.ToolResult{Text: "[application/gzip, 25 bytes]", Full: make([]byte, 25),
		MediaType: "application/gzip"})
	assert.Contains(t, binary.Text, "[application/gzip, 25 bytes]\n[the whole, 25 bytes, is the artifact ")

	var pictures []turn.Media
	for range 8 {
		pictures = append(pictures, turn.Media{Type: "image/png", Data: []byte("x")})
	}
	many := a.presentable(turn.ToolResult{Text: "eight pictures", Full: []byte("[]"), MediaType: "application/json",
		Media: pictures})
	assert.True(t, strings.HasPrefix(many.Text, "eight pictures\n"), "%s", many.Text)

	long := a.presentable(turn.ToolResult{Text: strings.Repeat("x", 4096), Full: make([]byte, 9000),
		MediaType: "text/plain"})
	assert.LessOrEqual(t, len(long.Text), 4096)
	assert.Contains(t, long.Text, "is the artifact")
}
