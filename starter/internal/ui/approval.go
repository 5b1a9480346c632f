package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/everturn/everturn/starter/internal/ui/termsafe"
	"github.com/everturn/everturn/workflows/plan"
	"github.com/everturn/everturn/workflows/turn"
)

// Verdict is a decision that a user can make about a call that waits for approval.
type Verdict struct {
	Key, Word string          // what the user types to select it: either of them, in any letter case
	Label     string          // what it does, for the user
	Allow     bool            // false: the call is denied
	Grant     turn.GrantScope // which later calls it allows too; empty: none
	Edit      bool            // the user changes the plan first
}

var verdicts = []Verdict{
	{Key: "y", Word: "yes", Label: "allow", Allow: true},
	{Key: "e", Word: "edit", Label: "edit the plan", Allow: true, Edit: true},
	{Key: "n", Word: "no", Label: "deny"},
	{Key: "a", Word: "always", Label: "always this call", Allow: true, Grant: turn.GrantCall},
	{Key: "h", Word: "host", Label: "always this host", Allow: true, Grant: turn.GrantHost},
	{Key: "c", Word: "command", Label: "always these commands", Allow: true, Grant: turn.GrantCommand},
	{Key: "t", Word: "tool", Label: "always this tool", Allow: true, Grant: turn.GrantTool},
}

// maxCovered bounds the commands or the host in a label, in bytes.
const maxCovered = 40

// Verdicts returns the verdicts that the request permits. The chat and the commands offer the same ones.
func Verdicts(r turn.Request) []Verdict {
	offered := slices.DeleteFunc(slices.Clone(verdicts), func(v Verdict) bool { return v.Refused(r) != nil })
	for i, v := range offered {
		if what := covered(r, v.Grant); what != "" && len(what) <= maxCovered { // Covers names longer ones
			offered[i].Label = "always " + what
		}
	}
	return offered
}

// Covers says in a line for each which later calls the verdicts allow whose labels cannot name all of them; "" if there
// are none.
func Covers(r turn.Request) string {
	var lines []string
	for _, v := range Verdicts(r) {
		switch v.Grant {
		case turn.GrantCommand:
			lines = append(lines, fmt.Sprintf("%s allows these commands from now on, with any further words: %s", v.Key,
				covered(r, v.Grant)))
		case turn.GrantHost:
			lines = append(lines, fmt.Sprintf("%s allows calls of this tool to %s from now on", v.Key, covered(r, v.Grant)))
		}
	}
	return strings.Join(lines, "\n")
}

// covered returns the commands or the host that a grant for the request allows, in one line that is safe for a terminal;
// "" for other grants.
func covered(r turn.Request, grant turn.GrantScope) (what string) {
	switch grant {
	case turn.GrantCommand:
		what = strings.Join(turn.CommandPrefixes(r.Arguments), ", ")
	case turn.GrantHost:
		what = turn.HostOf(r.Arguments)
	}
	return strings.ReplaceAll(termsafe.Visible(what), "\n", `\n`)
}

// VerdictOf returns the verdict that a key or a word selects, and false if there is none. It does not check whether a
// request permits the verdict: see Verdict.Refused.
func VerdictOf(typed string) (Verdict, bool) {
	typed = strings.ToLower(typed)
	i := slices.IndexFunc(verdicts, func(v Verdict) bool { return typed == v.Key || typed == v.Word })
	if i < 0 {
		return Verdict{}, false
	}
	return verdicts[i], true
}

// Refused returns nil if the request permits the verdict, and otherwise an error that tells the user why it does not.
func (v Verdict) Refused(r turn.Request) error {
	if !v.Allow {
		return nil
	}
	if err := Exact(r); err != nil {
		return err
	}
	if v.Edit && r.Tool != plan.Tool {
		return fmt.Errorf("call %s is not a plan: allow it or deny it", termsafe.Line(r.ID, 80))
	}
	if v.Grant != "" && !r.Grants(v.Grant) {
		return fmt.Errorf("%s", r.WhyNoGrant())
	}
	return nil
}

// Exact returns an error if the arguments in a request are not exactly those that its call would run with, because the
// journal has lost some or all of them. Such a call can only be denied: the user cannot see what it would do.
func Exact(r turn.Request) error {
	if r.Kind != turn.RequestApproval || turn.HashText(r.Arguments) == r.ArgumentsHash {
		return nil
	}
	return fmt.Errorf("call %s can only be denied: the journal has %d bytes of its arguments, whose hash is not %s",
		termsafe.Line(r.ID, 80), len(r.Arguments), ShortHash(r.ArgumentsHash))
}
