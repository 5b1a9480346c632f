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

	"github.com/everturn/everturn/workflows/turn"
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

// TestDocumentsAreLinked checks that the files that the documents link exist, and that the README links every page.
func TestDocumentsAreLinked(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	linked := map[string]bool{}
	for _, page := range append(pages, "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md", "../SECURITY.md") {
		for _, m := range regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(read(t, page), -1) {
			target := filepath.Join(filepath.Dir(page), m[1])
			_, err := os.Stat(target)
			assert.NoError(t, err, "%s links %s", page, m[1])
			if page == "../README.md" {
				linked[target] = true
			}
		}
	}
	for _, page := range pages {
		assert.True(t, linked[page], "the README does not link %s", page)
	}
}

func TestEveryErrorCodeIsExplained(t *testing.T) {
	t.Parallel()
	page := read(t, "../docs/troubleshooting.md")
	for _, code := range turn.Codes() {
		assert.Contains(t, page, "\n| `"+string(code)+"` |")
	}
}

// TestTheReadmeIsShort keeps the README to what a reader reads.
func TestTheReadmeIsShort(t *testing.T) {
	t.Parallel()
	assert.Less(t, len(strings.Fields(read(t, "../README.md"))), 1300)
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}
