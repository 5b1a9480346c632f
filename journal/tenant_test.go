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

// unscoped are the methods of DB that name no session and no turn for a reader. Those with which a worker records a
// turn name a turn that Begin has returned.
var unscoped = []string{
	"Begin", "StartInference", "SettleInference", "FailInference", "ReleaseInference", "AppendEvents", "AppendStream",
	"StepMessage",
	"ChangeModel", "ModelChange", "SettleCompaction", "CompactionUsage", "PromptContext",
	"Window", "TurnConfig",
	"Ask", "Decide", "Grants", "ClaimCall", "SettleCall", "ReleaseCall", "SuspendCall", "NoteCall", "Taint", "Artifact",
	"CallContext", "Finish", "PublishCatalogue", "Catalogues", "PutBlob", "GetBlob", "ID", "Tenant",
	"Sessions", "Import", "Changed", "PruneEvents", "ApproveTools", "ReportWorker", "RemoveWorker",
	"Workers", "Close", "Sealed", "Encrypted", "OpenRequests", "FleetScopes", "SetFleetLimits", "PauseScope",
	"ResumeScope",
	"Tree", "MoveTree", "DropTree", // whose caller names the tenant
	"LeaseCapacity", "RecordUsage", "ReserveUsage", "CheckWrite", "Guarded", "ReadOnly", "OfferedBy",
	"SettleLate",                                // see journaltest/clienttools.go
	"PutExchange", "Exchange", "DeleteExchange", // see journaltest/exchanges.go
	"CreateToken", "Tokens", "RevokeToken", "TokenBySecret", // see journaltest/tokens.go
	"CreateLink", "LinkBySecret", "SpendLink", // see journaltest/tokens.go
}

// TestNoMethodForgetsTheTenant checks that the conformance suite asks every method of DB that reads a
// session or a turn for those of another tenant.
func TestNoMethodForgetsTheTenant(t *testing.T) {
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
	j := reflect.TypeFor[*journal.DB]()
	for i := range j.NumMethod() {
		name := j.Method(i).Name
		if slices.Contains(unscoped, name) {
			continue
		}
		assert.Contains(t, asked, name, "journal.DB has the method %s: add it to journaltest/tenants.go, or say in this "+
			"test why it is for all tenants", name)
	}
}
