package tests

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDocumentsNameExistingTests checks the names of tests in the documents. A name that ends in … is a prefix.
func TestDocumentsNameExistingTests(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		sources.Write(b)
		return err
	}))
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		b, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile("`(?:\\w+: )?(Test[A-Z]\\w*)(…?)").FindAllStringSubmatch(string(b), -1) {
			end := "("
			if m[2] != "" {
				end = ""
			}
			assert.True(t, strings.Contains(sources.String(), "func "+m[1]+end), "%s names %s, which does not exist", page, m[1])
		}
	}
}
