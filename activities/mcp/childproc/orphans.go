package childproc

import "strings"

// markVariable is the environment variable that identifies the children of this program and their descendants. Its
// value is what owner returns and identifies the program that started the child.
const markVariable = "EVERTURN_CHILD_OF"

// marked returns a child's environment with the mark of this program, replacing an inherited mark.
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
