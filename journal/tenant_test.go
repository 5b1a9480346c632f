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

// anybodys are the methods of a Store that ForTenant does not change, by reason.
var anybodys = map[string][]string{
	"a turn that runs writes by them, as the tenant that Begin was told": {
		"Begin", "StartInference", "SettleInference", "FailInference", "Ask", "Decide", "ClaimCall", "SettleCall", "ReleaseCall",
		"SuspendCall", "NoteCall", "Finish", "AppendChunks", "TurnPins",
	},
	"they are the operator's":              {"PublishCatalogue", "Catalogues", "ApproveTools", "PruneChunks", "Close"},
	"a blob's name is that of its content": {"PutBlob", "GetBlob"},
	"it tells that something changed":      {"Changed"},
}

// TestNoMethodOfAStoreForgetsTheTenant checks that ForTenant covers every method of Store that names a session or a
// turn. A method that it omits would show every tenant's data to all.
func TestNoMethodOfAStoreForgetsTheTenant(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "tenant.go", nil, 0)
	require.NoError(t, err)
	var own []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			own = append(own, f.Name.Name)
		}
	}
	store := reflect.TypeFor[journal.Store]()
	for i := range store.NumMethod() {
		name := store.Method(i).Name
		excused := false
		for _, names := range anybodys {
			excused = excused || slices.Contains(names, name)
		}
		assert.NotEqual(t, excused, slices.Contains(own, name),
			"journal.Store has the method %s: bind it to its tenant in tenant.go, or say in this test why it is anybody's", name)
	}
}
