package journal

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// SchemaVersion is the version of the schema that this program writes. A journal with a newer schema records in
// min_program the lowest SchemaVersion that a program must have, so that older workers can continue during a rollout.
const SchemaVersion = 4

// CheckSchema returns an error that wraps ErrNewer if a journal with this min_program needs a newer program.
func CheckSchema(minProgram int) error {
	if minProgram <= SchemaVersion {
		return nil
	}
	return fmt.Errorf("%w: it is for programs of schema version %d, and this program's is %d: use the newer program, or "+
		"another journal", ErrNewer, minProgram, SchemaVersion)
}

// Migration returns the SQL that brings a database from a schema version to SchemaVersion. Version 0 is a database
// without tables. The first file migrations/NNNN.sql makes version NNNN of version 0, and each further file that of the
// version before. The SQL is empty if from is the newest version. It returns an error if from is a version before the
// first file's.
func Migration(files fs.FS, from int) (string, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	var script strings.Builder
	first := 0 // the oldest version that can be updated
	for _, name := range names {
		version, err := strconv.Atoi(strings.TrimSuffix(path.Base(name), ".sql"))
		if err != nil {
			return "", fmt.Errorf("the migration %s has no number: %w", name, err)
		}
		if first == 0 {
			first = version
		}
		if from != 0 && from < first {
			return "", fmt.Errorf("the journal's schema version is %d, and this program updates journals from version %d on: "+
				"export its sessions with the program that wrote it, and import them into a new journal", from, first)
		}
		if version <= from {
			continue
		}
		b, err := fs.ReadFile(files, name)
		if err != nil {
			return "", err
		}
		script.Write(b)
		fmt.Fprintf(&script, "\nUPDATE journal SET schema_version = %d;\n", version)
	}
	return script.String(), nil
}
