package workflows

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/everturn/everturn/workflows/turn"
)

const tenantPrefix = turn.TenantPrefix

// WorkflowID returns the workflow ID of a tenant's session: "tenant:<tenant>/<session>", or the session's ID alone for
// the default tenant, whose name is empty.
func WorkflowID(tenant, session string) string {
	if tenant == "" && !strings.HasPrefix(session, tenantPrefix) {
		return session
	}
	return tenantPrefix + tenant + "/" + session
}

// SessionOf returns the session of a workflow ID; ok is false if the workflow ID does not belong to the tenant.
func SessionOf(tenant, workflowID string) (session string, ok bool) {
	if tenant != "" {
		return strings.CutPrefix(workflowID, WorkflowID(tenant, ""))
	}
	return workflowID, !strings.HasPrefix(workflowID, tenantPrefix)
}

var tenantName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// CheckTenant returns an error if a tenant's name is invalid. The empty name is the default tenant's.
func CheckTenant(name string) error {
	if name == "" || tenantName.MatchString(name) {
		return nil
	}
	return fmt.Errorf("the tenant's name is %q; use at most 64 letters, digits, dots, underscores and dashes, beginning "+
		"with a letter or digit", turn.Truncate(name, 80))
}

// sessionOf returns the session of a run with this workflow ID. If the ID does not belong to the input's tenant, check
// rejects the input.
func (in Input) sessionOf(workflowID string) string {
	if session, ok := SessionOf(in.Tenant, workflowID); ok {
		return session
	}
	return workflowID
}

// checkTenant rejects a run whose workflow ID does not belong to its tenant.
func (in Input) checkTenant(workflowID string) *turn.Error {
	if err := CheckTenant(in.Tenant); err != nil {
		return invalid("%s", err.Error())
	}
	if _, ok := SessionOf(in.Tenant, workflowID); ok || in.Tenant == "" {
		return nil // for the default tenant, CheckSession reports the problem
	}
	return invalid("the workflow ID %q does not belong to tenant %q; start the workflow under %q and the session's name",
		turn.Truncate(workflowID, 80), in.Tenant, WorkflowID(in.Tenant, ""))
}
