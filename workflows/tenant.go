package workflows

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

// A session belongs to a tenant, the default one where none is named. Everything about a running turn goes by its workflow
// ID: updates, queries, cancellation. The ID of a tenant's session has the tenant in it, so that who acts for another one
// reaches nothing of it, whatever name of a session it gives. In the journal the names of sessions are one space: of two
// tenants that choose the same name the second is refused, with turn.CodeSessionTaken.

const tenantPrefix = turn.TenantPrefix

// WorkflowID is the workflow ID of a tenant's session: "tenant:<tenant>/<session>", and of the default tenant, whose name is
// empty, the session's ID alone.
func WorkflowID(tenant, session string) string {
	if tenant == "" && !strings.HasPrefix(session, tenantPrefix) {
		return session
	}
	return tenantPrefix + tenant + "/" + session
}

// SessionOf is the session whose workflow ID this is for the tenant; ok is false where it is none of the tenant's.
func SessionOf(tenant, workflowID string) (session string, ok bool) {
	if tenant != "" {
		return strings.CutPrefix(workflowID, WorkflowID(tenant, ""))
	}
	return workflowID, !strings.HasPrefix(workflowID, tenantPrefix)
}

var tenantName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// CheckTenant reports what is wrong with a tenant's name. The empty one is the default tenant's.
func CheckTenant(name string) error {
	if name == "" || tenantName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("the tenant's name is %q; use at most 64 letters, digits, dots, underscores and dashes, beginning with a letter or digit", turn.Truncate(name, 80))
}

// sessionOf is the session of a run with this workflow ID. Where that is none of the input's tenant, check refuses it.
func (in Input) sessionOf(workflowID string) string {
	if session, ok := SessionOf(in.Tenant, workflowID); ok {
		return session
	}
	return workflowID
}

// checkTenant refuses a run that is not under an ID of its tenant.
func (in Input) checkTenant(workflowID string) *turn.Error {
	if err := CheckTenant(in.Tenant); err != nil {
		return invalid("%s", err.Error())
	}
	if _, ok := SessionOf(in.Tenant, workflowID); ok || in.Tenant == "" {
		return nil // without a tenant CheckSession says what is wrong
	}
	return invalid("the workflow ID %q is none of tenant %q; start the workflow under %q and the session's name", turn.Truncate(workflowID, 80), in.Tenant, WorkflowID(in.Tenant, ""))
}
