package journal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/everturn/everturn/journal"
)

// unscoped are the methods of a Store, beyond those of Journal, that name no session and no turn for a reader.
var unscoped = []string{"Sessions", "Import", "Changed", "PruneChunks", "ApproveTools", "ReportWorker", "RemoveWorker",
	"Workers", "Close"}

// TestNoMethodOfAStoreForgetsTheTenant checks that the conformance suite asks every method of Store that names a
// session or a turn for those of another tenant. The methods of Journal name a turn that Begin has returned.
func TestNoMethodOfAStoreForgetsTheTenant(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "journaltest/tenants.go", nil, 0)
	require.NoError(t, err)
	var asked []string
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := call.X.(*ast.Ident); ok && x.Name == "view" {
				asked = append(asked, call.Sel.Name)
			}
		}
		return true
	})
	store, recording := reflect.TypeFor[journal.Store](), reflect.TypeFor[journal.Journal]()
	for i := range store.NumMethod() {
		name := store.Method(i).Name
		if _, records := recording.MethodByName(name); records || slices.Contains(unscoped, name) {
			continue
		}
		assert.Contains(t, asked, name, "journal.Store has the method %s: add it to journaltest/tenants.go, or say in this "+
			"test why it is for all tenants", name)
	}
}
