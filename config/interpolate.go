package config

import (
	"fmt"
	"regexp"
	"strings"
)

// reference matches ${NAME}, ${NAME:-default}, the escape $${ and, to refuse it, any other ${.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^}]*))?\}|\$\{`)

// interpolate replaces the references in a string of the file. It reports false where one could not be.
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
		case m[1] == "":
			ok = false
			l.refer(key, "${", false, fmt.Sprintf("%s holds a ${ that is no ${VAR} or ${VAR:-default}; write $${ for a literal one", key))
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

// refer adds a problem at a reference inside a value.
func (l *loader) refer(key, text string, credentials bool, message string) {
	p := l.at(key, true, message)
	where := l.places.inside(key, text)
	p.Line, p.Column, p.Credentials = where.line, where.column, credentials
	l.add(p)
}
