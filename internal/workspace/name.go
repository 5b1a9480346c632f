package workspace

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode"
)

// The author and committer of all commits but those of a person who merges by command.
const (
	author = "Everturn"
	email  = "everturn@localhost"
)

// branchPrefix begins the names of the branches of sessions, and distinguishes them from all others.
const branchPrefix = "everturn/"

// Branch returns the name of the branch of a session.
func Branch(tenant, session string) string { return branchPrefix + escape(qualified(tenant, session)) }

// qualified returns the name of a session among those of all tenants.
func qualified(tenant, session string) string {
	if tenant == "" {
		return session
	}
	return "tenant:" + tenant + "/" + session
}

// escape escapes all characters but ASCII letters, digits, - and _ as %XX, because a session ID may contain characters
// that git refuses in the name of a branch.
func escape(session string) string {
	var name strings.Builder
	for _, b := range []byte(session) {
		if b == '-' || b == '_' || b < unicode.MaxASCII && (unicode.IsLetter(rune(b)) || unicode.IsDigit(rune(b))) {
			name.WriteByte(b)
		} else {
			fmt.Fprintf(&name, "%%%02X", b)
		}
	}
	return name.String()
}

// dirName returns the name of a session's directory in trees. It is short, and differs from every other also where
// names ignore letter case.
func dirName(tenant, session string) string {
	s := qualified(tenant, session)
	return fmt.Sprintf("%.40s-%.8x", strings.ToLower(escape(s)), sha256.Sum256([]byte(s)))
}

// The references of a session in the store: its branch, the commit at which its canvas began, and under names of their
// own the commits that its branch has left by a merge, and those that were taken back or never on the branch. In the
// user's repository, heldRef keeps the base from being collected.
func headRef(tenant, session string) string { return "refs/heads/" + Branch(tenant, session) }

func baseRef(tenant, session string) string {
	return "refs/everturn/base/" + escape(qualified(tenant, session))
}

func leftRefs(tenant, session string) string {
	return "refs/everturn/left/" + escape(qualified(tenant, session)) + "/"
}

func asideRefs(tenant, session string) string {
	return "refs/everturn/aside/" + escape(qualified(tenant, session)) + "/"
}

// publishedRefs begin the names of references to the commits that a session has pushed, or was about to push, to a
// branch for the user.
func publishedRefs(tenant, session string) string {
	return "refs/everturn/published/" + escape(qualified(tenant, session)) + "/"
}

// pendingRef is the commit of a call that is not recorded yet. Each epoch of the tree has its own.
func pendingRef(tenant, session string, epoch int64) string {
	return "refs/everturn/pending/" + escape(qualified(tenant, session)) + "/" + strconv.FormatInt(epoch, 10)
}

func heldRef(tenant, session string) string {
	return "refs/everturn/" + escape(qualified(tenant, session))
}

// Action identifies the call that changes a canvas. It is recorded in the commit's trailers.
type Action struct {
	Tenant, Session, Turn, Call, Tool, Model, ArgumentsHash string
	Step                                                    int
}

// The trailers of commits.
const (
	trailerSession = "Everturn-Session"
	trailerCall    = "Everturn-Call" // TURN/CALL, which is unique
	trailerBase    = "Everturn-Base" // the ID of a commit, none or itself
)

// The values of trailerBase that are not the ID of a commit: the canvas began in a repository without commits, and it
// begins again with this commit, which a merge has made.
const (
	baseNone   = "none"
	baseItself = "itself"
)

// message returns the message of a commit: a first line, perhaps more text, and the trailers that have a value.
func (a Action) message(text, base string, trailers ...string) string {
	title, body, _ := strings.Cut(strings.TrimSpace(text), "\n")
	var m strings.Builder
	m.WriteString(oneLine(title, 100) + "\n\n")
	if body = strings.TrimSpace(body); body != "" {
		for line := range strings.Lines(body) {
			m.WriteString(strings.TrimRight(oneLine(line, 1000), " ") + "\n")
		}
		m.WriteString("\n")
	}
	step, call := "", ""
	if a.Call != "" {
		step, call = strconv.Itoa(a.Step), a.call()
	}
	for _, t := range [][2]string{{trailerSession, oneLine(qualified(a.Tenant, a.Session), 1000)},
		{"Everturn-Turn", oneLine(a.Turn, 200)}, {"Everturn-Step", step}, {trailerCall, call},
		{"Everturn-Tool", oneLine(a.Tool, 200)}, {"Everturn-Model", oneLine(a.Model, 200)},
		{"Everturn-Arguments-Hash", a.ArgumentsHash}, {trailerBase, cmp.Or(base, baseNone)}} {
		if t[1] != "" {
			m.WriteString(t[0] + ": " + t[1] + "\n")
		}
	}
	for _, t := range trailers {
		m.WriteString(oneLine(t, 1000) + "\n")
	}
	return m.String()
}

// call returns the value of the trailer that names the call.
func (a Action) call() string { return oneLine(a.Turn, 200) + "/" + oneLine(a.Call, 100) }

// oneLine replaces control characters by spaces, and cuts s to most bytes and an ellipsis.
func oneLine(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// cleanPath checks the path of a file that a tool names and returns its shortest form.
func cleanPath(name string) (string, error) {
	clean := path.Clean(name)
	if name == "" || clean == "." || path.IsAbs(name) || strings.Contains(name, `\`) || len(name) > maxPath {
		return "", fmt.Errorf("path %q: give the path of a file relative to the repository, with forward slashes", name)
	}
	for _, part := range strings.Split(name, "/") {
		if part != "" && part != "." && !isOrdinary(part) {
			return "", fmt.Errorf("path %q: .., .git and .everturn are out of a canvas's reach", name)
		}
	}
	return clean, nil
}

// maxPath bounds the path of a file in a commit, in bytes.
const maxPath = 1000

// isOrdinary reports whether a file or directory of this name may be in a commit. Names that some file system takes for
// .git may not: a checkout of the commit would write into the user's repository.
func isOrdinary(name string) bool {
	// Some file systems ignore letter case, characters that are not printed, and dots or spaces at the end, or treat a
	// colon as the begin of a stream's name. git~1 is the short name of .git on Windows.
	visible := strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, name)
	visible, _, _ = strings.Cut(strings.ToLower(visible), ":")
	switch strings.TrimRight(visible, ". ") {
	case "", ".git", "git~1", ".everturn":
		return false
	}
	return !strings.ContainsAny(name, "/\x00\n")
}
