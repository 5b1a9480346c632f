package sandbox

import (
	"bytes"
	"regexp"
	"strings"
)

var (
	// credentialSections are the sections of a configuration of git that may hold credentials, or name files that do.
	credentialSections = []string{"credential", "http", "include", "includeif", "url", "sendemail", "imap"}
	gitSection         = regexp.MustCompile(`^\s*\[\s*([A-Za-z0-9.-]+)`)
	userInURL          = regexp.MustCompile(`://[^/@\s"]*@`)
)

// cleanGitConfig returns a configuration of git without the sections of credentials, and without the users and
// passwords of its URLs.
func cleanGitConfig(text []byte) []byte {
	var out bytes.Buffer
	dropped := false
	for line := range strings.Lines(string(text)) {
		if m := gitSection.FindStringSubmatch(line); m != nil {
			name, _, _ := strings.Cut(strings.ToLower(m[1]), ".")
			dropped = false
			for _, s := range credentialSections {
				dropped = dropped || s == name
			}
		}
		if !dropped {
			out.WriteString(userInURL.ReplaceAllString(line, "://"))
		}
	}
	return out.Bytes()
}
