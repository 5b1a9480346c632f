package talk

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOwnFilesAreNoChangesOfTheUser(t *testing.T) {
	for name, want := range map[string]bool{"agent.toml": true, "sub/agent.toml": true, ".everturn/journal.db": true,
		"my-agent.toml": false, "agent.toml/x": false, "everturn": false} {
		assert.Equal(t, want, isOurs(name), name)
	}
}
