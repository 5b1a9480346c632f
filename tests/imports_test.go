package tests

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/everturn/everturn"

// importRule forbids imports. Test files may import anything.
type importRule struct {
	why string
	// from are the packages that the rule is about, with those below them; ["*"] are all.
	from []string
	// never are what they must not import: packages of this module, standard ones or modules of others, with all below.
	never []string
	// except are packages that may, exactly.
	except []string
}

// importRules are the layers of ARCHITECTURE.md: each may use only what is to its right.
//
//	starter, worker → engine, client → activities, journal → workflows → workflows/turn
var importRules = []importRule{
	{"the domain is pure", []string{"workflows/turn", "workflows/plan"},
		[]string{"context", "os", "net/http", "math/rand", "sync", "database/sql", "go.temporal.io", "config", "journal",
			"activities"}, nil},
	{"workflows are deterministic: they know no implementation", []string{"workflows"},
		[]string{"os", "net/http", "math/rand", "database/sql", "config", "journal", "activities", "client", "engine", "codec"}, nil},
	{"the journal serves activities and clients", []string{"journal"},
		[]string{"activities", "client", "engine", "config", "codec", "go.temporal.io"}, nil},
	{"activities get what they need from the engine", []string{"activities"},
		[]string{"client", "engine", "config", "codec"}, nil},
	{"models and tools know no journal", []string{"activities/inference", "activities/tools", "activities/mcp"},
		[]string{"journal", "go.temporal.io"}, nil},
	{"the activities know no implementation of their ports", []string{"activities", "journal", "client", "starter"},
		[]string{"activities/inference", "activities/mcp", "activities/tools/files", "activities/tools/shell",
			"activities/tools/web", "activities/tools/canvas", "journal/sqlite", "journal/postgres"},
		[]string{"activities/inference/chat", "activities/inference/responses", "activities/inference/messages",
			"activities/tools", "activities/tools/shell", "activities/tools/shell/proxy", "activities/tools/canvas",
			"activities/tools/web", "activities/mcp",
			"journal/postgres/pgtest", "journal/sqlite", "journal/postgres"}},
	{"clients need no worker", []string{"client"}, []string{"engine", "activities"}, nil},
	{"the command line reaches the journal through the client", []string{"starter"},
		[]string{"journal", "engine", "activities", "database/sql"},
		[]string{"starter/internal/cli/app"}}, // dev starts a worker
	{"nothing imports commands", []string{"*"}, []string{"starter", "worker", "tests", "examples"},
		[]string{"starter", "starter/*"}},
	{"a dependency has one place", []string{"*"}, []string{"modernc.org/sqlite"}, []string{"journal/sqlite"}},
	{"a dependency has one place", []string{"*"}, []string{"github.com/jackc/pgx/v5"},
		[]string{"journal/postgres", "journal/postgres/pgtest"}},
	{"a dependency has one place", []string{"*"}, []string{"github.com/sashabaranov/go-openai"},
		[]string{"activities/inference/chat", "activities/inference/responses", "activities/inference/demo"}},
	{"a dependency has one place", []string{"*"}, []string{"github.com/modelcontextprotocol/go-sdk"}, []string{"activities/mcp"}},
	{"a dependency has one place", []string{"*"},
		[]string{"github.com/spf13/cobra", "charm.land", "github.com/charmbracelet"},
		[]string{"starter/*", "internal/devserver"}},
	{"tests have their own dependencies", []string{"*"}, []string{"github.com/stretchr/testify"},
		[]string{"journal/journaltest", "codec/codectest"}},
}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	packages := packagesOf(t)
	for _, rule := range importRules {
		for pkg, files := range packages {
			if !isBelow(pkg, rule.from) || isExcepted(pkg, rule.except) {
				continue
			}
			for file, names := range files {
				for _, name := range names {
					name = strings.TrimPrefix(name, module+"/")
					assert.False(t, isBelow(name, rule.never) && !isBelow(name, []string{pkg}), "%s imports %s: %s", file, name, rule.why)
				}
			}
		}
	}
}

// isBelow reports whether a package is one of roots or below one. "*" is above all.
func isBelow(pkg string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return root == "*" || pkg == root || strings.HasPrefix(pkg, root+"/")
	})
}

// isExcepted reports whether a package is in the list; "x/*" are all packages below x.
func isExcepted(pkg string, list []string) bool {
	return slices.ContainsFunc(list, func(e string) bool {
		above, all := strings.CutSuffix(e, "/*")
		return pkg == e || all && strings.HasPrefix(pkg, above+"/")
	})
}

func TestEveryPackageHasDocumentation(t *testing.T) {
	for pkg := range packagesOf(t) {
		_, err := os.Stat(filepath.Join("..", pkg, "doc.go"))
		assert.NoError(t, err, "%s has no doc.go", pkg)
	}
}

// packagesOf returns every package of the product with the imports of each of its files.
func packagesOf(t *testing.T) map[string]map[string][]string {
	t.Helper()
	found := map[string]map[string][]string{}
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(p, "../"))
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || rel == "tests" || rel == "tools" ||
			d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := path.Dir(rel)
		if found[pkg] == nil {
			found[pkg] = map[string][]string{}
		}
		found[pkg][rel] = nil
		for _, i := range f.Imports {
			found[pkg][rel] = append(found[pkg][rel], strings.Trim(i.Path.Value, `"`))
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}
