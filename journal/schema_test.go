package journal_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

func TestMigrationRunsWhatADatabaseLacks(t *testing.T) {
	files := fstest.MapFS{"migrations/0005.sql": {Data: []byte("FIVE;")}, "migrations/0004.sql": {Data: []byte("FOUR;")}}
	const four, five = "FOUR;\nUPDATE journal SET schema_version = 4;\n", "FIVE;\nUPDATE journal SET schema_version = 5;\n"
	for from, want := range map[int]string{0: four + five, 4: five, 5: "", 6: ""} {
		got, err := journal.Migration(files, from)
		require.NoError(t, err)
		assert.Equal(t, want, got, from)
	}
	_, err := journal.Migration(files, 3)
	assert.ErrorContains(t, err, "export its sessions with the program that wrote it")
}
