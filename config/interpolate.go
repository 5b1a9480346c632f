package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// reference matches ${NAME}, ${NAME:-default}, ${file:PATH}, the escape $${ and, to reject it, any other ${.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^}]*))?\}|\$\{file:([^}]*)\}|\$\{`)

// maxSecretBytes bounds the size of a file that holds a secret.
const maxSecretBytes = 64 << 10

// interpolate replaces the references in a string of the file. It reports false if one of them cannot be resolved.
func (l *loader) interpolate(key, s string, secret bool) (string, bool) {
	if !strings.Contains(s, "${") {
		return s, true
	}
	l.loaded.written[key] = s
	ok := true
	out := reference.ReplaceAllStringFunc(s, func(match string) string {
		m := reference.FindStringSubmatch(match)
		switch {
		case match == "$${":
			return "${"
		case strings.HasPrefix(match, "${file:"):
			value, err := secretFile(m[4], secret)
			if err != nil {
				ok = false
				l.refer(key, "${file:", secret, fmt.Sprintf("%s refers to a file: %v", key, err))
			}
			return value
		case m[1] == "":
			ok = false
			l.refer(key, "${", false, fmt.Sprintf("%s has an invalid ${ reference; write ${VAR}, ${VAR:-default} or ${file:/path}, or $${ for a literal ${", key))
			return ""
		}
		value, set := l.env[m[1]]
		if m[2] != "" && value == "" {
			return m[3]
		}
		if !set {
			ok = false
			l.refer(key, "${"+m[1], secret, fmt.Sprintf("%s needs the environment variable %s, which is not set; set it, or write ${%s:-default}", key, m[1], m[1]))
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

// refer adds a problem at a reference inside a value.
func (l *loader) refer(key, text string, credentials bool, message string) {
	p := l.at(key, true, message)
	where := l.places.inside(key, text)
	p.Line, p.Column, p.Credentials = where.line, where.column, credentials
	l.add(p)
}
