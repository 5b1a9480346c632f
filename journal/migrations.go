package journal

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Migration returns the SQL that brings a database from a schema version to SchemaVersion. Version 0 is a database
// without tables. Each file migrations/NNNN.sql makes version NNNN of the one before. The SQL is empty if from is the
// newest version.
func Migration(files fs.FS, from int) (string, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	var script strings.Builder
	for _, name := range names {
		version, err := strconv.Atoi(strings.TrimSuffix(path.Base(name), ".sql"))
		if err != nil {
			return "", fmt.Errorf("the migration %s has no number: %w", name, err)
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
