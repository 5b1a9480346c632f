package activities

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/everturn/everturn/workflows/turn"
)

func TestTheModelIsToldWhereAndWhenItWorks(t *testing.T) {
	a := Settings{Workspace: "/home/ann/project"}
	morning := time.Date(2026, 11, 26, 8, 0, 0, 0, time.UTC)
	reads := []turn.Tool{{ID: "local/read_file"}}
	all := a.environment(morning, reads)
	for _, part := range []string{"Thursday, 26 November 2026", "/home/ann/project", runtime.GOOS} {
		assert.Contains(t, all, part)
	}
	assert.Equal(t, all, a.environment(morning.Add(12*time.Hour), reads), "a session's prompts of one day begin the same")
	assert.NotContains(t, a.environment(morning, nil), "/home/ann", "without its tools the folder is not the model's concern")
}
