package tests

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/everturn/everturn"

// house lists the imports that each package (room) may use: packages of this module and modules of others. The standard
// library is always allowed, except for the packages listed in pure. Test files may import anything.
var house = map[string][]string{
	"internal/childenv":   {},
	"internal/jsonbound":  {},
	"internal/loopback":   {},
	"internal/redact":     {"internal/invisible"},
	"internal/regex":      {},
	"internal/retryafter": {},
	"internal/nearest":    {"github.com/agnivade/levenshtein"},
	"workflows/turn":      {"internal/plain"},
	"workflows": {"workflows/turn", "go.temporal.io/api/enums/v1", "go.temporal.io/sdk/workflow",
		"go.temporal.io/sdk/temporal", "go.temporal.io/sdk/log", "go.temporal.io/sdk/converter"},
	"journal":                {"workflows/turn", "internal/jsonbound"},
	"internal/statedir":      {"golang.org/x/sys"},
	"journal/internal/watch": {"journal"},
	"journal/sqlite": {"workflows/turn", "journal", "journal/internal/watch", "internal/statedir",
		"modernc.org/sqlite"},
	"journal/postgres":        {"journal", "journal/internal/watch", "github.com/jackc/pgx/v5"},
	"journal/postgres/pgtest": {"journal/postgres", "github.com/jackc/pgx/v5"},
	"journal/journaltest":     {"workflows/turn", "journal", "github.com/stretchr/testify"},
	"activities": {"workflows", "workflows/turn", "journal", "internal/redact", "go.temporal.io/sdk",
		"github.com/hashicorp/golang-lru/v2",
		"golang.org/x/sync"},
	"activities/inference": {"workflows/turn", "internal/jsonbound", "internal/redact", "internal/retryafter",
		"internal/plain", "github.com/sashabaranov/go-openai"},
	"activities/inference/demo": {"internal/plain", "github.com/sashabaranov/go-openai"},
	"activities/toolbox": {"workflows/turn", "internal/childenv", "internal/jsonbound", "internal/redact",
		"internal/retryafter", "activities/toolbox/stdio", "activities/toolbox/schema", "activities/toolbox/pool",
		"internal/loopback", "internal/plain", "github.com/modelcontextprotocol/go-sdk",
		"github.com/google/jsonschema-go", "code.dny.dev/ssrf", "golang.org/x/oauth2", "golang.org/x/sync"},
	"internal/plain": {},
	"activities/toolbox/schema": {"workflows/turn", "internal/regex", "internal/plain", "github.com/google/jsonschema-go",
		"github.com/hashicorp/golang-lru/v2"},
	"activities/toolbox/stdio": {"golang.org/x/sys"},
	"activities/toolbox/pool":  {},
	"activities/toolbox/files": {"workflows/turn", "internal/regex", "activities/toolbox"},
	"config": {"internal/loopback", "internal/nearest", "internal/plain", "workflows/turn",
		"github.com/pelletier/go-toml/v2", "github.com/google/jsonschema-go"},
	"internal/cluster": {"config", "internal/loopback", "internal/statedir", "go.temporal.io/sdk",
		"go.temporal.io/api", "google.golang.org/grpc", "google.golang.org/protobuf", "go.temporal.io/sdk/contrib/envconfig"},
	"client": {"workflows", "workflows/turn", "journal", "config", "internal/cluster",
		"go.temporal.io/sdk", "go.temporal.io/api"},
	"engine": {"internal/plain", "client", "workflows", "workflows/turn", "activities", "activities/inference",
		"activities/inference/demo", "activities/toolbox",
		"activities/toolbox/files", "journal", "journal/sqlite", "journal/postgres", "config", "internal/cluster",
		"internal/statedir", "internal/redact", "go.temporal.io/sdk", "golang.org/x/sync", "golang.org/x/sys"},
	"worker":  {"engine", "config", "internal/cluster", "journal"},
	"starter": {"starter/internal/cli"},
	"starter/internal/cli": {"github.com/cli/browser", "internal/invisible", "internal/nearest", "workflows",
		"workflows/turn", "journal",
		"client", "config", "internal/cluster", "engine", "internal/devserver", "internal/statedir", "docs",
		"starter/internal/ui/chat",
		"starter/internal/ui", "starter/internal/ui/form", "starter/internal/ui/termsafe", "github.com/spf13/cobra",
		"github.com/spf13/pflag",
		"golang.org/x/term", "golang.org/x/sys", "github.com/rogpeppe/go-internal"},
	"starter/internal/ui": {"workflows/turn", "starter/internal/ui/form", "starter/internal/ui/termsafe",
		"github.com/dustin/go-humanize"},
	"starter/internal/ui/chat": {"internal/nearest", "workflows", "workflows/turn", "journal", "client",
		"starter/internal/ui",
		"starter/internal/ui/form",
		"starter/internal/ui/termsafe", "charm.land", "github.com/charmbracelet",
		"github.com/rogpeppe/go-internal/diff"},
	"starter/internal/ui/form":     {"internal/nearest", "workflows/turn", "starter/internal/ui/termsafe", "charm.land"},
	"starter/internal/ui/termsafe": {"internal/invisible"},
	"internal/invisible":           {},
	"docs":                         {},
	"examples/client":              {"client", "config", "engine", "workflows/turn"},
	"internal/devserver": {"internal/childenv", "internal/loopback", "internal/statedir", "github.com/spf13/cobra",
		"go.temporal.io/sdk", "go.temporal.io/api",
		"google.golang.org/grpc"},
}

// pure lists, for packages without side effects, the standard library packages that they must not import.
var pure = map[string][]string{"workflows/turn": {"context", "os", "net", "math/rand", "sync", "os/exec", "net/http"}}

func TestImportsFollowTheHouse(t *testing.T) {
	for room, imports := range rooms(t) {
		allowed, known := house[room]
		if !assert.True(t, known, "room %s is not in the house: add it to the table with what it may import, or take it away",
			room) {
			continue
		}
		for file, names := range imports {
			for _, name := range names {
				assert.True(t, mayImport(room, allowed, name), "%s: %s may not import %s", file, room, name)
			}
		}
	}
}

func mayImport(room string, allowed []string, name string) bool {
	ours, isOurs := strings.CutPrefix(name, module+"/")
	if !isOurs && !strings.Contains(strings.Split(name, "/")[0], ".") {
		for _, p := range pure[room] {
			if name == p {
				return false
			}
		}
		return true
	}
	for _, a := range allowed {
		if isOurs && ours == a || !isOurs && (name == a || strings.HasPrefix(name, a+"/")) {
			return true
		}
	}
	return false
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for room := range rooms(t) {
		_, err := os.Stat(filepath.Join("..", room, "doc.go"))
		assert.NoError(t, err, "%s has no doc.go", room)
	}
}

// rooms returns every package of the product with the imports of each of its files.
func rooms(t *testing.T) map[string]map[string][]string {
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
		room := path.Dir(rel)
		if found[room] == nil {
			found[room] = map[string][]string{}
		}
		found[room][rel] = nil
		for _, i := range f.Imports {
			found[room][rel] = append(found[room][rel], strings.Trim(i.Path.Value, `"`))
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, found)
	return found
}
