package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
)

// reference matches ${NAME}, ${NAME:-default}, ${file:PATH}, the escape $${ and, to reject it, any other ${.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^}]*))?\}|\$\{file:([^}]*)\}|\$\{`)

// maxSecretBytes bounds the size of a file that holds a secret.
const maxSecretBytes = 64 << 10

// interpolate replaces the references in a string of the file. It reports false if one of them cannot be resolved.
func (l *loader) interpolate(f field, s string) (string, bool) {
	if !strings.Contains(s, "${") {
		return s, true
	}
	l.loaded.written[f.key] = s
	if l.asis {
		return s, f.value.Kind() == reflect.String && f.value.Type() != durationType
	}
	ok, secret := true, f.value.Type() == secretType
	// refuse adds a problem at the first occurrence of text in the string as it is written.
	refuse := func(text string, credentials bool, format string, args ...any) {
		if ok = false; len(l.problems) >= maxProblems {
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
		if m[2] != "" && value == "" {
			return m[3]
		}
		if !set {
			refuse("${"+name, secret, "needs the environment variable %s, which is not set; set it, "+
				"or write ${%s:-default}", name, name)
		}
		return value
	})
	return out, ok
}

// secretFile reads a file that holds a secret, without its trailing newlines. Only secrets may come from files, because
// other values are shown. A secret in a file, unlike one in the environment, stays hidden from processes that cannot
// read the file.
func secretFile(path string, secret bool) (string, error) {
	if !secret {
		return "", errors.New("only secrets may come from files")
	}
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%q is not absolute; write ${file:/path}", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
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

// References returns the references in a secret of a file that has not been resolved: see Written.
func (s Secret) References() []string { return reference.FindAllString(string(s), -1) }
