package stdio

import "strings"

// markVariable is the variable by which a child, and whatever it starts, is known to be ours. It names the program that
// started it, as owner does, and nothing else.
const markVariable = "EVERTURN_CHILD_OF"

// marked is a child's environment with the mark of this program, in place of another that it may have inherited.
func marked(env []string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, markVariable+"=") {
			out = append(out, kv)
		}
	}
	if self := owner(); self != "" {
		out = append(out, markVariable+"="+self)
	}
	return out
}
