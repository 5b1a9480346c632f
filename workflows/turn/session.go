package turn

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// TenantPrefix begins the workflow IDs of named tenants' sessions. No session ID begins with it.
const TenantPrefix = "tenant:"

// maxSession bounds a session's ID, in bytes. Temporal bounds a workflow ID at 1,000 bytes.
const maxSession = 200

// CheckSession returns an error if a session ID is invalid. Any printable text of up to 200 bytes is valid unless it
// has space around it, or begins with TenantPrefix or with a dash: a command that is printed for the session would read
// that as a flag.
func CheckSession(id string) error {
	switch {
	case id == "" || strings.TrimSpace(id) != id:
		return fmt.Errorf("the session ID is empty or has space around it")
	case strings.HasPrefix(id, TenantPrefix):
		return fmt.Errorf(
			"the session ID begins with %q, which is reserved for the sessions of named tenants; choose another", TenantPrefix)
	case id[0] == '-':
		return fmt.Errorf("the session ID begins with a dash, as flags do; choose another")
	case len(id) > maxSession:
		return fmt.Errorf("the session ID is %d bytes; the maximum is %d", len(id), maxSession)
	case !Printable(id):
		return fmt.Errorf("the session ID contains characters that cannot be printed; use letters, digits and signs")
	}
	return nil
}

// Printable reports whether s is valid UTF-8 whose characters are all printable.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}
