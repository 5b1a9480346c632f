package devstack

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheVersionThatIsInstalledIsTheOneThatToolsPins(t *testing.T) {
	b, err := os.ReadFile("../../tools/go.mod")
	require.NoError(t, err)
	version := pinned[strings.LastIndexByte(pinned, '@')+1:]
	assert.Contains(t, string(b), "github.com/temporalio/cli "+version)
}
