package tape

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/workflows/turn"
)

// A tape that was recorded yesterday in another folder has the answer to the same request of today.
func TestARequestIsTheSameOnAnotherDay(t *testing.T) {
	tape := &Tape{}
	_, want, err := tape.request(turn.Prompt{System: "be brief"})
	require.NoError(t, err)
	for _, environment := range []string{"\n\nToday's date: Monday", "\n\nToday's date: Tuesday"} {
		_, name, err := tape.request(turn.Prompt{System: "be brief" + environment, Environment: environment})
		require.NoError(t, err)
		assert.Equal(t, want, name)
	}
}

// TestAFileOfManyValuesIsNotDecoded reads a file that is small and would take gigabytes of memory.
func TestAFileOfManyValuesIsNotDecoded(t *testing.T) {
	tape := &Tape{dir: t.TempDir()}
	for name, list := range map[string]string{"many.json": strings.Repeat("{},", maxValues) + "{}",
		"deep.json": strings.Repeat("[", maxNesting) + strings.Repeat("]", maxNesting)} {
		content := `{"version":1,"request":{"messages":[` + list + `]},"exchanges":[{}]}`
		require.NoError(t, os.WriteFile(filepath.Join(tape.dir, name), []byte(content), 0o600))
		_, err := tape.read(name)
		assert.ErrorContains(t, err, "nested deeper", name)
	}
}

// TestAPipeIsNoFileOfATape checks that a pipe in the folder is an error: opening it would wait for a writer.
func TestAPipeIsNoFileOfATape(t *testing.T) {
	tape := &Tape{dir: t.TempDir()}
	require.NoError(t, syscall.Mkfifo(filepath.Join(tape.dir, "a.json"), 0o600))
	_, err := tape.read("a.json")
	assert.ErrorContains(t, err, "is not a file of a tape")
}
