package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// LoadOptions are the sources of a configuration.
type LoadOptions struct {
	// Path is the file's path. Empty means DefaultPath, which may be missing; a path that is given must exist.
	Path string
	// Content is the file's content, if it has been read already (see ReadFile); Path then only names it. Without bytes,
	// but not nil, it means that there is no file.
	Content []byte
	// Environ is the environment in the form of os.Environ; nil means an empty one.
	Environ []string
	// Overrides are values of the command line by dotted key ("runtime.max_steps": "3"); lists are separated by commas.
	Overrides map[string]string
}

// Loaded is a configuration with the origins of its values.
type Loaded struct {
	Config Config
	// Path is the path of the file that was read; empty if there is none.
	Path       string
	places     places
	overridden map[string]string // by key: the variable or flag that sets it
	preset     map[string]string // by key: the preset or setting from which its value follows
	written    map[string]string // by key: a value of the file that holds ${}, as it is written
}

// Load reads, merges and validates a configuration. Its error is an *Error with the problems found, 50 at most; if the
// file cannot be read or is not TOML, that is the only one. A missing provider key is not an error here: see
// Config.CheckCredentials.
func Load(o LoadOptions) (*Loaded, error) {
	l := newLoader(environment(o.Environ))
	data := o.Content
	if data == nil {
		var err error
		if data, err = ReadFile(o.Path); err != nil {
			return nil, err
		}
	}
	if err := l.applyFile(cmp.Or(o.Path, DefaultPath), data); err != nil {
		return nil, err
	}
	l.applyEnviron()
	l.applyOverrides(o.Overrides)
	l.applyPreset()
	l.applyProviderKeys()
	l.validate()
	if err := asError(l.problems); err != nil {
		return nil, err
	}
	return l.loaded, nil
}

// loader merges the file, the environment and the command line into loaded, in this order, and collects the problems.
type loader struct {
	env      map[string]string
	loaded   *Loaded
	problems []Problem
	asis     bool // keep references (${VAR}) as they are written
}

func newLoader(env map[string]string) *loader {
	return &loader{
		env: env,
		loaded: &Loaded{Config: Default(), overridden: map[string]string{}, preset: map[string]string{},
			written: map[string]string{}},
	}
}

// add records a problem. It truncates the message, which may quote names of the file of any length.
func (l *loader) add(p Problem) {
	const most = 2000 // bytes
	if len(l.problems) >= maxProblems {
		return
	}
	if len(p.Message) > most {
		p.Message = strings.ToValidUTF8(p.Message[:most], "") + "…"
	}
	l.problems = append(l.problems, p)
}

// validate adds the problems of Validate with their origins. It skips a key if it, a key around it or a key in it
// already has a problem, because its value was never set as a whole.
func (l *loader) validate() {
	var e *Error
	if !errors.As(l.loaded.Config.Validate(), &e) {
		return
	}
	earlier := slices.Clone(l.problems)
	for _, p := range e.Problems {
		related := func(k Problem) bool { return within(k.Key, p.Key) || within(p.Key, k.Key) }
		if slices.ContainsFunc(earlier, related) {
			continue
		}
		if p.Source = l.loaded.override(p.Key); p.Source == "" {
			l.loaded.locate(&p)
		}
		l.add(p)
	}
}

// within reports whether the key inner is outer, or in it.
func within(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return outer != "" && ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// override returns the variable or flag that sets a key or a list or table around it, "" if there is none.
func (l *Loaded) override(key string) string {
	for ; key != ""; key = enclosing(key) {
		if source := l.overridden[key]; source != "" {
			return source
		}
	}
	return ""
}

// Origin returns where the value of a setting comes from: "default", "agent.toml:12", "environment OPENAI_API_KEY",
// "command line (runtime.max_steps)" or, with the origin of runtime.preset, "preset coding (agent.toml:3)".
func (l *Loaded) Origin(key string) string {
	if source := l.override(key); source != "" {
		return source
	}
	if _, ok := l.places.key[key]; ok {
		line, _ := l.places.position(l.places.key[key])
		return fmt.Sprintf("%s:%d", l.Path, line)
	}
	if source := l.preset[key]; source != "" {
		return source
	}
	return "default"
}

// explicit reports whether the file, the environment or the command line sets a key.
func (l *Loaded) explicit(key string) bool {
	_, inFile := l.places.key[key]
	return inFile || l.override(key) != ""
}
