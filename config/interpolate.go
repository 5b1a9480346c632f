package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// reference matches ${NAME}, ${NAME:-default}, ${file:PATH}, the escape $${ and, to reject it, any other ${.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^}]*))?\}|\$\{file:([^}]*)\}|\$\{`)

// maxSecretBytes bounds the size of a file that holds a secret.
const maxSecretBytes = 64 << 10

// secretFileWithin bounds how long the writer of a named pipe may take.
const secretFileWithin = 10 * time.Second

// interpolate returns s, a string of the file for the setting f, with its references (${VAR}) replaced by their values.
// It adds a problem and returns false if one of them cannot be resolved. If l keeps references as they are written, it
// returns s, and false without a problem if f cannot hold it.
func (l *loader) interpolate(f field, s string) (string, bool) {
	if !strings.Contains(s, "${") {
		return s, true
	}
	l.loaded.written[f.key] = s
	if l.asis {
		// The reference itself becomes the value of a string. No other type can hold it: the default stays.
		return s, f.value.Kind() == reflect.String
	}
	ok, secret := true, f.value.Type() == secretType
	// refuse adds a problem, at the position in the file where text first occurs in the string. credentials says that the
	// problem is only a missing secret. The message begins with the key.
	refuse := func(text string, credentials bool, format string, args ...any) {
		ok = false
		if len(l.problems) >= maxProblems {
			return
		}
		raw := l.loaded.places.value[f.key]
		source := l.loaded.places.data[raw.Offset : raw.Offset+raw.Length]
		message := f.key + " " + fmt.Sprintf(format, args...)
		p := Problem{Key: f.key, Source: l.loaded.Path, Message: message, Credentials: credentials}
		p.Line, p.Column = l.loaded.places.position(int(raw.Offset) + max(bytes.Index(source, []byte(text)), 0))
		l.add(p)
	}
	out := reference.ReplaceAllStringFunc(s, func(match string) string {
		// m[1] is NAME; m[2] is ":-" if there is a default, m[3]; m[4] is the PATH of a file.
		m := reference.FindStringSubmatch(match)
		name := m[1]
		switch {
		case match == "$${":
			return "${"
		case strings.HasPrefix(match, "${file:"):
			value, err := secretFile(m[4], secret)
			if err != nil {
				refuse("${file:", secret, "refers to a file: %v", err)
			}
			l.loaded.Config.addSource(m[4])
			return value
		case name == "":
			refuse("${", false, "has an invalid ${ reference; write ${VAR}, ${VAR:-default} or ${file:/path}, "+
				"or $${ for a literal ${")
			return ""
		}
		value, set := l.env[name]
		if m[2] != "" && value == "" { // as in a shell, :- also replaces an empty value
			return m[3]
		}
		if !set { // an empty value without a default stays empty
			refuse("${"+name, secret, "needs the environment variable %s, which is not set; set it, "+
				"or write ${%s:-default}", name, name)
		}
		return value
	})
	return out, ok
}

// Expand replaces ${NAME}, ${NAME:-default} and $${ in s as Load does. lookup returns the value of a variable, or "".
func Expand(s string, lookup func(name string) string) string {
	return reference.ReplaceAllStringFunc(s, func(match string) string {
		switch m := reference.FindStringSubmatch(match); {
		case match == "$${":
			return "${"
		case m[1] == "":
			return match
		default:
			return cmp.Or(lookup(m[1]), m[3])
		}
	})
}

// secretFile returns the content of a file that holds a secret, without its trailing newlines; an empty file is an
// error. secret says whether the setting that refers to the file is a Secret. Other settings may not refer to files,
// because commands print their values.
func secretFile(path string, secret bool) (string, error) {
	if !secret {
		return "", errors.New("only secrets may come from files")
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not absolute; write ${file:/path}", path)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not wait for the writer of a named pipe
	if err != nil {
		return "", err
	}
	defer f.Close()
	_ = f.SetReadDeadline(time.Now().Add(secretFileWithin)) // not every file supports deadlines
	b, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	value := strings.TrimRight(string(b), "\r\n")
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSecretBytes:
		return "", fmt.Errorf("%s is larger than %d bytes; is it a secret?", path, maxSecretBytes)
	case value == "":
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

// References returns the references in a secret of a file that has not been resolved (see Written). It replaces their
// defaults, which may be secret, with "hidden".
func (s Secret) References() []string {
	refs := reference.FindAllString(string(s), -1)
	for i, ref := range refs {
		if before, _, ok := strings.Cut(ref, ":-"); ok && !strings.HasPrefix(ref, "${file:") {
			refs[i] = before + ":-hidden}"
		}
	}
	return refs
}
