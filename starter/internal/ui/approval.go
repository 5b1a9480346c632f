package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/journal/record"
	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// Verdict is a decision that a user can make about a call that waits for approval.
type Verdict struct {
	Key, Word string // either of them selects it, in any letter case
	Label     string
	Allow     bool
	Grant     turn.GrantScope // of later calls; empty: none
	Edit      bool            // the user changes the plan first
}

var verdicts = []Verdict{
	{Key: "y", Word: "yes", Label: "allow", Allow: true},
	{Key: "e", Word: "edit", Label: "edit the plan", Allow: true, Edit: true},
	{Key: "n", Word: "no", Label: "deny"},
	{Key: "a", Word: "always", Label: "always this call", Allow: true, Grant: turn.GrantCall},
	{Key: "h", Word: "host", Label: "always this host", Allow: true, Grant: turn.GrantHost},
	{Key: "t", Word: "tool", Label: "always this tool", Allow: true, Grant: turn.GrantTool},
}

// Verdicts returns the verdicts that the request permits. The chat and the commands offer the same ones.
func Verdicts(r turn.Request) []Verdict {
	return slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Refused(r) != nil })
}

// VerdictOf returns the verdict that a key or a word selects; false if there is none. Refused says whether the request
// permits it.
func VerdictOf(typed string) (Verdict, bool) {
	typed = strings.ToLower(typed)
	i := slices.IndexFunc(verdicts, func(v Verdict) bool { return typed == v.Key || typed == v.Word })
	if i < 0 {
		return Verdict{}, false
	}
	return verdicts[i], true
}

// Refused says why the request does not permit the verdict; nil if it does.
func (v Verdict) Refused(r turn.Request) error {
	if !v.Allow {
		return nil
	}
	if err := Exact(r); err != nil {
		return err
	}
	if v.Edit && r.Tool != plan.Tool {
		return fmt.Errorf("call %s is no plan: allow it or deny it", termsafe.Line(r.ID, 80))
	}
	if v.Grant != "" && !r.Grants(v.Grant) {
		return fmt.Errorf("%s", r.WhyNoGrant())
	}
	return nil
}

// Exact returns an error if a request does not have exactly the arguments that its call would run with, because the
// journal has lost them or a part of them. Such a call can only be denied.
func Exact(r turn.Request) error {
	if r.Kind != turn.RequestApproval || record.HashOf([]byte(r.Arguments)) == r.ArgumentsHash {
		return nil
	}
	return fmt.Errorf("call %s can only be denied: the journal has %d bytes of its arguments, whose hash is not %s",
		termsafe.Line(r.ID, 80), len(r.Arguments), ShortHash(r.ArgumentsHash))
}
