package app

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheStateFolderKeepsOutOfRepositories(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, KeepState())
	ignore := filepath.Join(StateDir, ".gitignore")
	b, err := os.ReadFile(ignore)
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(b))
	require.NoError(t, os.WriteFile(ignore, []byte("!*\n"), 0o600))
	require.NoError(t, KeepState())
	b, err = os.ReadFile(ignore)
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(b), "one that came with a clone is overwritten")
}

func TestSignalsThatWereTakenEndNothing(t *testing.T) {
	signals := make(chan os.Signal, 1)
	ctx, i := Catch(t.Context(), signals)
	mine := i.Take()
	signals <- os.Interrupt
	assert.Equal(t, os.Interrupt, <-mine)
	assert.NoError(t, ctx.Err())
	assert.Equal(t, mine, i.Take(), "taking twice is the same")
}

func TestOnlyCtrlCPressedAgainStops(t *testing.T) {
	for name, tc := range map[string]struct {
		next  os.Signal
		after time.Duration
		stops bool
	}{
		"pressed again":              {os.Interrupt, time.Second, true},
		"delivered twice":            {os.Interrupt, 10 * time.Millisecond, false},
		"ended by another process":   {syscall.SIGTERM, time.Second, false},
		"pressed long after leaving": {os.Interrupt, 4 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				time.AfterFunc(tc.after, func() { signals <- tc.next })
				assert.Equal(t, tc.stops, PressedAgain(signals))
				synctest.Wait()
			})
		})
	}
}
