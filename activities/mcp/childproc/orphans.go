package childproc

import "strings"

// markVariable is the environment variable that marks the children of this program and their descendants. Its value
// identifies the program that started the child (see ownMark).
const markVariable = "EVERTURN_CHILD_OF"

// withMark returns a child's environment with the mark of this program, which replaces an inherited mark. If this
// program has no mark, the child has none either.
func withMark(env []string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, markVariable+"=") {
			out = append(out, kv)
		}
	}
	if self := ownMark(); self != "" {
		out = append(out, markVariable+"="+self)
	}
	return out
}
