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

// allowedImports lists the imports that each package may use: packages of this module and modules of others. The
// standard library is always allowed, except for the packages listed in pure. Test files may import anything.
var allowedImports = map[string][]string{
	"internal/childenv":        {},
	"internal/jsonbound":       {},
	"internal/loopback":        {},
	"internal/redact":          {"internal/invisible"},
	"internal/regex":           {},
	"internal/retryafter":      {},
	"internal/outage":          {},
	"internal/nearest":         {"github.com/agnivade/levenshtein"},
	"internal/models/generate": {"internal/models", "workflows/turn"},
	"internal/tape":            {"internal/jsonbound", "internal/redact", "workflows/turn", "github.com/hashicorp/golang-lru/v2"},
	"internal/skills":          {"internal/printable", "workflows/turn", "go.yaml.in/yaml/v3"},
	"internal/models": {"internal/printable", "internal/statedir", "workflows/turn",
		"github.com/agnivade/levenshtein"},
	"workflows/plan": {"internal/printable"},
	"workflows/turn": {"workflows/plan", "internal/printable"},
	"workflows": {"workflows/turn", "internal/printable", "go.temporal.io/api/enums/v1", "go.temporal.io/sdk/workflow",
		"go.temporal.io/sdk/temporal", "go.temporal.io/sdk/log", "go.temporal.io/sdk/converter"},
	"journal": {"workflows/turn", "journal/catalogue", "journal/fleet", "journal/internal/tables", "journal/portable",
		"journal/record"},
	"journal/record":          {"workflows/plan", "workflows/turn"},
	"journal/internal/tables": {"workflows/turn", "journal/record", "internal/outage", "github.com/tink-crypto/tink-go/v2"},
	"journal/fleet":           {"journal/internal/tables", "journal/record"},
	"journal/catalogue":       {"workflows/turn", "journal/fleet", "journal/internal/tables", "journal/record"},
	"journal/portable":        {"workflows/turn", "internal/jsonbound", "journal/internal/tables", "journal/record"},
	"journal/follow":          {"workflows/turn", "journal"},
	"internal/statedir":       {"golang.org/x/sys"},
	"journal/internal/watch":  {"journal"},
	"journal/sqlite": {"workflows/turn", "journal", "journal/internal/tables", "journal/internal/watch",
		"internal/statedir",
		"modernc.org/sqlite"},
	"journal/postgres": {"journal", "journal/internal/tables", "journal/internal/watch",
		"github.com/jackc/pgx/v5"},
	"journal/postgres/pgtest": {"journal/postgres", "github.com/jackc/pgx/v5"},
	"journal/journaltest": {"workflows/turn", "journal", "journal/catalogue", "journal/fleet", "journal/follow",
		"journal/portable", "journal/record", "github.com/stretchr/testify"},
	"activities": {"workflows/plan", "activities/capacity", "activities/tools/schema", "workflows",
		"workflows/turn", "journal",
		"journal/catalogue",
		"journal/fleet",
		"journal/record", "internal/expiry", "internal/outage", "internal/redact", "internal/skills",
		"go.temporal.io/sdk",
		"github.com/hashicorp/golang-lru/v2",
		"golang.org/x/sync"},
	"activities/capacity": {"journal/fleet"},
	"activities/inference": {"workflows/turn", "internal/jsonbound", "internal/models", "internal/redact",
		"internal/retryafter",
		"internal/printable"},
	"activities/inference/chat": {"activities/inference", "internal/models", "workflows/turn",
		"github.com/sashabaranov/go-openai"},
	"activities/inference/responses": {"activities/inference", "workflows/turn", "github.com/sashabaranov/go-openai"},
	"activities/inference/messages":  {"activities/inference", "workflows/turn"},
	"activities/inference/demo":      {"internal/printable", "github.com/sashabaranov/go-openai"},
	"activities/tools": {"workflows/turn", "internal/printable", "internal/redact", "activities/mcp",
		"activities/tools/schema", "activities/tools/tool", "github.com/google/jsonschema-go"},
	"activities/tools/tool": {"workflows/turn", "internal/printable"},
	"activities/mcp": {"workflows/turn", "internal/childenv", "internal/expiry", "internal/jsonbound", "internal/redact",
		"internal/retryafter", "internal/loopback", "internal/printable", "activities/mcp/childproc",
		"activities/mcp/netguard",
		"activities/mcp/pool", "activities/tools/schema", "activities/tools/tool",
		"github.com/modelcontextprotocol/go-sdk",
		"go.opentelemetry.io/otel/propagation",
		"golang.org/x/oauth2", "golang.org/x/sync"},
	"internal/expiry":    {},
	"internal/printable": {},
	"activities/tools/schema": {"workflows/turn", "internal/regex", "internal/printable",
		"github.com/google/jsonschema-go",
		"github.com/hashicorp/golang-lru/v2"},
	"internal/canvas": {},
	"activities/tools/shell": {"workflows/turn", "activities/tools", "activities/tools/files",
		"github.com/landlock-lsm/go-landlock", "golang.org/x/sys"},
	"activities/tools/web": {"workflows/turn", "activities/tools", "activities/mcp/netguard", "internal/loopback", "internal/redact",
		"golang.org/x/net"},
	"activities/tools/canvas": {"workflows/turn", "activities/tools", "activities/tools/files", "internal/canvas",
		"internal/redact"},
	"activities/tools/files": {"workflows/turn", "internal/regex", "internal/redact", "activities/tools",
		"github.com/bluekeyes/go-gitdiff", "github.com/go-git/go-git", "github.com/rogpeppe/go-internal/diff",
		"golang.org/x/sys"},
	"activities/mcp/childproc": {"golang.org/x/sys"},
	"activities/mcp/netguard":  {"internal/loopback", "code.dny.dev/ssrf"},
	"activities/mcp/pool":      {},
	"config": {"workflows/plan", "internal/loopback", "internal/nearest", "internal/printable", "workflows/turn",
		"github.com/pelletier/go-toml/v2", "github.com/google/jsonschema-go"},
	"codec/codectest": {"codec", "github.com/stretchr/testify"},
	"codec": {"config", "go.temporal.io/sdk", "go.temporal.io/api", "google.golang.org/protobuf",
		"github.com/tink-crypto/tink-go/v2"},
	"internal/temporalconn": {"codec", "config", "internal/loopback", "internal/statedir", "go.temporal.io/sdk",
		"go.temporal.io/api", "google.golang.org/grpc", "google.golang.org/protobuf",
		"go.temporal.io/sdk/contrib/envconfig"},
	"internal/hidememory":  {"golang.org/x/sys"},
	"internal/modelconfig": {"config", "internal/models", "workflows/turn"},
	"internal/openjournal": {"codec", "config", "internal/temporalconn", "journal", "journal/postgres", "journal/sqlite"},
	"internal/rollout": {"config", "internal/temporalconn", "internal/version", "workflows", "go.temporal.io/sdk",
		"go.temporal.io/api"},
	"internal/telemetry": {"workflows/turn", "journal", "journal/record", "internal/temporalconn",
		"go.opentelemetry.io",
		"go.temporal.io/sdk", "github.com/prometheus/client_golang"},
	"client": {"github.com/google/jsonschema-go", "codec", "workflows", "workflows/plan", "workflows/turn", "journal",
		"journal/catalogue", "journal/fleet", "journal/follow", "journal/portable", "journal/record", "config",
		"internal/openjournal", "internal/temporalconn",
		"go.opentelemetry.io/otel/propagation",
		"go.temporal.io/sdk", "go.temporal.io/api"},
	"engine": {"activities/capacity", "codec", "internal/printable", "client", "workflows", "workflows/turn",
		"activities",
		"activities/inference", "activities/inference/chat", "activities/inference/messages",
		"activities/inference/responses", "activities/inference/demo", "activities/mcp", "activities/tools",
		"activities/tools/canvas", "activities/tools/files", "activities/tools/shell", "activities/tools/tool",
		"activities/tools/web",
		"internal/canvas", "internal/modelconfig", "internal/openjournal", "journal", "journal/fleet", "journal/follow",
		"journal/postgres", "config",
		"internal/temporalconn",
		"internal/statedir", "internal/trust", "internal/models", "internal/redact", "internal/rollout", "internal/skills", "internal/tape",
		"internal/telemetry",
		"internal/version", "go.temporal.io/sdk",
		"github.com/hashicorp/golang-lru/v2", "golang.org/x/sync", "golang.org/x/sys"},
	"internal/trust":         {"config", "internal/printable", "internal/statedir"},
	"internal/workerprocess": {"engine", "config", "internal/hidememory", "internal/temporalconn", "internal/trust"},
	"worker":                 {"config", "internal/temporalconn", "internal/version", "internal/workerprocess", "journal"},
	"starter":                {"starter/internal/cli"},
	"starter/internal/cli": {
		"internal/hidememory", "internal/version", "starter/internal/cli/app", "starter/internal/cli/branch",
		"starter/internal/cli/decide",
		"starter/internal/cli/develop", "starter/internal/cli/look", "starter/internal/cli/schedule",
		"starter/internal/cli/setup", "starter/internal/cli/talk", "github.com/spf13/cobra",
	},
	"starter/internal/cli/app": {
		"client", "codec", "config", "engine", "internal/temporalconn", "internal/devserver", "internal/invisible",
		"internal/modelconfig",
		"internal/nearest", "internal/statedir", "internal/trust", "starter/internal/ui",
		"starter/internal/ui/form",
		"starter/internal/ui/termsafe", "charm.land/lipgloss", "github.com/charmbracelet", "go.temporal.io/api",
		"github.com/muesli/cancelreader",
		"workflows", "workflows/turn", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys",
		"golang.org/x/term",
	},
	"starter/internal/cli/branch": {
		"client", "internal/canvas", "internal/tape", "starter/internal/cli/app",
		"starter/internal/ui",
		"starter/internal/ui/termsafe",
		"workflows/turn", "github.com/spf13/cobra",
	},
	"starter/internal/cli/decide": {"workflows/plan",
		"client", "starter/internal/cli/app", "starter/internal/ui",
		"starter/internal/ui/form",
		"starter/internal/ui/termsafe", "workflows/turn", "github.com/spf13/cobra",
	},
	"starter/internal/cli/develop": {
		"config", "docs", "internal/devserver", "internal/version", "internal/workerprocess", "starter/internal/cli/app", "github.com/spf13/cobra",
	},
	"starter/internal/cli/look": {"workflows/plan",
		"client", "starter/internal/cli/app", "starter/internal/ui", "starter/internal/ui/termsafe",
		"workflows", "workflows/turn", "github.com/cli/browser", "github.com/spf13/cobra",
	},
	"starter/internal/cli/schedule": {
		"client", "starter/internal/cli/app", "workflows", "workflows/turn", "github.com/spf13/cobra",
		"github.com/spf13/pflag",
	},
	"starter/internal/cli/setup": {
		"client", "codec", "config", "engine", "internal/canvas", "internal/codecserver", "internal/loopback",
		"internal/modelconfig",
		"internal/models", "internal/rollout", "internal/skills", "internal/temporalconn",
		"internal/trust",
		"starter/internal/cli/app", "starter/internal/ui",
		"starter/internal/ui/termsafe", "workflows", "workflows/turn", "github.com/rogpeppe/go-internal",
		"github.com/spf13/cobra", "go.temporal.io/api",
	},
	"starter/internal/cli/talk": {"workflows/plan",
		"client", "config", "internal/loopback", "internal/modelconfig", "starter/internal/cli/app",
		"starter/internal/cli/decide", "starter/internal/ui", "starter/internal/ui/chat", "starter/internal/ui/termsafe", "workflows",
		"workflows/turn", "github.com/spf13/cobra",
	},
	"starter/internal/ui": {"workflows/plan", "workflows/turn", "starter/internal/ui/form",
		"starter/internal/ui/termsafe",
		"github.com/dustin/go-humanize", "github.com/rogpeppe/go-internal/diff"},
	"starter/internal/ui/chat": {"workflows/plan", "internal/nearest", "workflows", "workflows/turn",

		"client",
		"starter/internal/ui",
		"starter/internal/ui/form",
		"starter/internal/ui/termsafe", "charm.land", "github.com/charmbracelet"},
	"starter/internal/ui/form":     {"internal/nearest", "workflows/turn", "starter/internal/ui/termsafe", "charm.land"},
	"starter/internal/ui/termsafe": {"internal/invisible", "github.com/charmbracelet/x/ansi"},
	"internal/invisible":           {},
	"docs":                         {},
	"internal/version":             {},
	"examples/client":              {"client", "config", "workflows/turn"},
	"examples/embed":               {"client", "config", "engine", "workflows/turn"},
	"examples/temporal":            {"go.temporal.io/sdk", "go.temporal.io/api"},
	"internal/codecserver": {"codec", "internal/loopback", "go.temporal.io/sdk", "go.temporal.io/api",
		"github.com/coreos/go-oidc/v3"},
	"internal/devserver": {"internal/childenv", "internal/loopback", "internal/statedir", "tools", "github.com/spf13/cobra",
		"go.temporal.io/sdk", "go.temporal.io/api",
		"google.golang.org/grpc"},
}

// pure lists, for packages without side effects, the standard library packages that they must not import.
var pure = map[string][]string{"workflows/turn": {"context", "os", "net", "math/rand", "sync", "os/exec", "net/http"}}

func TestPackagesImportOnlyWhatTheyMay(t *testing.T) {
	for pkg, imports := range packagesOf(t) {
		allowed, known := allowedImports[pkg]
		if !assert.True(t, known, "package %s is not in the table allowedImports: add it with what it may import",
			pkg) {
			continue
		}
		for file, names := range imports {
			for _, name := range names {
				assert.True(t, mayImport(pkg, allowed, name), "%s: %s may not import %s", file, pkg, name)
			}
		}
	}
}

func mayImport(pkg string, allowed []string, name string) bool {
	ours, isOurs := strings.CutPrefix(name, module+"/")
	if !isOurs && !strings.Contains(strings.Split(name, "/")[0], ".") {
		for _, p := range pure[pkg] {
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
