package turn

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/everturn/everturn/workflows/turn/command"
)

// CommandPolicy decides about the command lines of the tool shell. deny wins over ask, and ask over allow. A rule is
// the words of a command: "git status". With * as its last word it allows further words, too: "go test *". A line is
// allowed if each of its commands is, and if it only joins them by && || ; and |, redirects into the tree, and leaves
// the shell nothing to expand. deny and ask look into substitutions, and behind env, xargs, sh -c and the like.
type CommandPolicy struct {
	// Commands that need no approval.
	Allow []string `json:"allow,omitempty" toml:"allow" maxbytes:"400" example:"go test *,git status"`
	// Commands that need an approval, with all further words.
	Ask []string `json:"ask,omitempty" toml:"ask" maxbytes:"400" example:"git push"`
	// Commands that are never run, with all further words.
	Deny []string `json:"deny,omitempty" toml:"deny" maxbytes:"400" example:"git push --force"`
}

// CommandRule is set for a tool whose argument command is a command line, and says how its commands are isolated.
type CommandRule struct {
	// Isolated means that a command can change only its tree and its caches, and can send only to hosts that are listed;
	// and that the authors of the tree are trusted.
	Isolated bool `json:"isolated,omitempty"`
	// Unconfined means that nothing isolates the commands: each needs an approval.
	Unconfined bool `json:"unconfined,omitempty"`
	// Host means that commands reach what the machine reaches: each needs an approval.
	Host bool `json:"host,omitempty"`
}

// lineOf returns the command line of a call, and false if readers may find different ones in the arguments.
func lineOf(arguments string) (string, bool) {
	fields, err := readArguments(json.RawMessage(arguments))
	if err != nil {
		return "", false
	}
	found := valuesAt(fields, "command")
	text, ok := fields["command"].(string)
	return text, ok && len(found) == 1
}

// CommandPrefixes returns the beginnings of the commands of a call that a user may allow for later calls: "go test". It
// is empty if the arguments have no plain command line.
func CommandPrefixes(arguments string) []string {
	line, ok := lineOf(arguments)
	if !ok {
		return nil
	}
	return command.Prefixes(line)
}

// CommandGrant returns the hash that a grant of scope GrantCommand has in place of its arguments' hash.
func CommandGrant(prefix string) string {
	sum := sha256.Sum256([]byte("command " + prefix))
	return hex.EncodeToString(sum[:])
}

// permitCommand decides about a call of the tool t, about which the lists and the tool's risk have decided as listed.
// reason is why the call needs an approval although a rule may allow its commands; it is empty if it does not.
func (p Policy) permitCommand(t Tool, arguments json.RawMessage, listed Permit, reason string) Permit {
	line, ok := lineOf(string(arguments))
	if !ok {
		return Permit{Permission: Ask, Why: fmt.Sprintf("policy requires approval of %s with unclear arguments", t.ID),
			MaxGrant: GrantCall}
	}
	d := command.Rules(p.Commands).Decide(line)
	switch {
	case d.Verdict == command.Denied:
		return Permit{Permission: Deny, Why: d.Why}
	case t.Commands.Unconfined:
		return Permit{Permission: Ask, MaxGrant: GrantNever,
			Why: "nothing isolates the command ([sandbox] level is none)"}
	case t.Commands.Host:
		return Permit{Permission: Ask, MaxGrant: GrantCall,
			Why: "the command reaches the network ([sandbox] network is host)"}
	case d.Verdict == command.Asked:
		return Permit{Permission: Ask, Why: d.Why, MaxGrant: GrantCall}
	case reason != "":
	case d.Verdict == command.Allowed, t.Commands.Isolated && p.IsolatedCommands == Allow, listed.Permission == Allow:
		return Permit{Permission: Allow}
	}
	ask := Permit{Permission: Ask, Why: cmp.Or(reason, d.Why), MaxGrant: GrantCall}
	if len(d.Prefixes) > 0 {
		ask.MaxGrant, ask.Commands = GrantCommand, d.Prefixes
	}
	return ask
}

// IsGranted reports whether grants allow each of the commands for which the permit needs an approval.
func (p Permit) IsGranted(tool string, grants []Grant) bool {
	return p.MaxGrant == GrantCommand && len(p.Commands) > 0 && !slices.ContainsFunc(p.Commands, func(prefix string) bool {
		hash := CommandGrant(prefix)
		return !slices.ContainsFunc(grants, func(g Grant) bool { return g.Tool == tool && g.ArgumentsHash == hash })
	})
}
