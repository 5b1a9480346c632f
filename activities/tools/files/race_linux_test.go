package files

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// racedCalls is how often each tool is called while a directory and a link take turns.
const racedCalls = 150

// TestADirectoryThatIsSwappedForALinkOpensNothing calls each tool below build/d while another process, such as a
// command with build as a directory that it may write, exchanges that directory and a link to one that no tool reaches.
func TestADirectoryThatIsSwappedForALinkOpensNothing(t *testing.T) {
	for link, forbidden := range map[string]string{
		"../.git": "hooks", "..": ".everturn", "../.agents": "skills", "../..": "outside",
	} {
		t.Run(link, func(t *testing.T) { raceAgainst(t, link, forbidden) })
	}
}

func raceAgainst(t *testing.T, link, forbidden string) {
	const canary = "canary-5c1f"
	w, root := tree(t, map[string]string{".git/hooks/f": canary, ".everturn/f": canary, ".agents/skills/f": canary,
		"../outside/f": canary, "build/d/" + forbidden + "/f": "plain"})
	require.NoError(t, os.Symlink(link, filepath.Join(root, "build/l")))
	guarded := map[string][]string{}
	for _, dir := range []string{".git", ".everturn", ".agents", "../outside"} {
		guarded[dir] = snapshot(t, filepath.Join(root, dir))
	}
	stop := swapping(t, filepath.Join(root, "build/d"), filepath.Join(root, "build/l"))
	dir := "build/d/" + forbidden
	allowed := forbidden == ".everturn" || forbidden == "skills"
	for range racedCalls {
		for _, use := range []func() (string, error){
			func() (string, error) { return w.read(t.Context(), ReadInput{Path: dir + "/f"}) },
			func() (string, error) { return w.list(t.Context(), ListInput{Path: dir}) },
			func() (string, error) { return w.search(t.Context(), SearchInput{Path: dir, Query: "canary"}) },
			func() (string, error) { return w.search(t.Context(), SearchInput{Path: "build", Query: "canary"}) },
			func() (string, error) {
				return w.write(t.Context(), WriteInput{Path: dir + "/f", Content: "gone", Overwrite: true})
			},
			func() (string, error) { return w.write(t.Context(), WriteInput{Path: dir + "/new/f", Content: "gone"}) },
			func() (string, error) {
				return w.edit(t.Context(), EditInput{Path: dir + "/f", OldString: canary, NewString: "gone"})
			},
			func() (string, error) {
				return w.patch(t.Context(), PatchInput{Path: dir + "/f", Patch: "@@ -1 +1 @@\n-" + canary + "\n+gone\n"})
			},
			func() (string, error) { return w.delete(t.Context(), DeleteInput{Path: dir + "/f"}) },
			func() (string, error) { return w.delete(t.Context(), DeleteInput{Path: dir + "/new/f"}) },
		} {
			out, _ := use() // either is right
			if !allowed && strings.Contains(out, canary) {
				t.Fatal("a tool read through the link:", out)
			}
		}
	}
	stop()
	for dir, before := range guarded {
		assert.Equal(t, before, snapshot(t, filepath.Join(root, dir)), "a tool wrote through the link")
	}
}

// swapping exchanges two names as fast as it can until stop is called.
func swapping(t *testing.T, a, b string) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				assert.NoError(t, unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE))
			}
		}
	})
	stop = sync.OnceFunc(func() { close(done); ended.Wait() })
	t.Cleanup(stop)
	return stop
}
