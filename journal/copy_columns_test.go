package journal

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCopyKnowsTheColumnsOfTheSchema checks that Copy converts every boolean and seals every content that may be a
// blob.
func TestCopyKnowsTheColumnsOfTheSchema(t *testing.T) {
	schema, err := os.ReadFile("postgres/migrations/0004.sql")
	require.NoError(t, err)
	tables := regexp.MustCompile(`(?ms)^CREATE TABLE (\w+) \((.*?)^\);`).FindAllStringSubmatch(string(schema), -1)
	column := regexp.MustCompile(`(?m)^  ([a-z]\w*) +([A-Z]+)`)
	var booleans []string
	for _, table := range tables {
		if !slices.Contains(copiedTables, table[1]) {
			continue
		}
		for _, c := range column.FindAllStringSubmatch(table[2], -1) {
			if c[2] == "BOOLEAN" && !slices.Contains(booleans, c[1]) {
				booleans = append(booleans, c[1])
			}
			content, isBlob := strings.CutSuffix(c[1], "_blob")
			if isBlob && regexp.MustCompile(`(?m)^  `+content+` `).MatchString(table[2]) {
				assert.Contains(t, sealedColumns[table[1]], content, table[1])
			}
		}
	}
	assert.ElementsMatch(t, booleanColumns, booleans)
	for table, columns := range sealedColumns {
		assert.Contains(t, copiedTables, table)
		assert.NotEmpty(t, columns)
	}
}
