package sqlite_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal/sqlite"
	"github.com/everturn/everturn/workflows/turn"
)

// restless is the n-th catalogue of a server that changes all its tools each time. It has about 1 MB.
func restless(n int, mayChange bool) turn.Catalogue {
	c := turn.Catalogue{Server: "x", Hash: fmt.Sprint(n), ConfigHash: "s", AllowToolChanges: mayChange}
	noise := rand.NewChaCha8([32]byte{byte(n)}) // incompressible
	for i := range 50 {
		b := make([]byte, 16<<10)
		_, _ = noise.Read(b) // never fails
		c.Tools = append(c.Tools, turn.Descriptor{ID: fmt.Sprintf("mcp/x/t%d", i), Hash: fmt.Sprint(n, i),
			Description: base64.StdEncoding.EncodeToString(b)})
	}
	return c
}

// TestReplacedCataloguesLeaveNothingBehind checks that a server that keeps changing its tools does not fill the disk,
// whether its changes are quarantined or accepted.
func TestReplacedCataloguesLeaveNothingBehind(t *testing.T) {
	for _, mayChange := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "journal.db")
		db := open(t, path, sqlite.Options{})
		publish := func(from, to int) (bytes int64) {
			for i := from; i < to; i++ {
				require.NoError(t, db.PublishCatalogue(t.Context(), restless(i, mayChange)))
			}
			for _, file := range []string{path, path + "-wal"} {
				stat, err := os.Stat(file)
				require.NoError(t, err)
				bytes += stat.Size()
			}
			return bytes
		}
		settled := publish(0, 20) // reaches the maximum number of accepted versions of a tool
		assert.Less(t, publish(20, 40), settled+4<<20, "may change: %v", mayChange)
		list, err := db.Catalogues(t.Context())
		require.NoError(t, err)
		if mayChange {
			assert.Equal(t, "39 7", list[0].Tools[7].Hash)
		} else {
			assert.Equal(t, "39 7", list[0].Quarantined[7].Now.Hash)
			assert.Equal(t, "0 7", list[0].Quarantined[7].Approved.Hash)
		}
	}
}
