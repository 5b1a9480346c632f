package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// DefaultPath is the file that Load reads if no path is given.
const DefaultPath = "agent.toml"

// MaxFileBytes bounds agent.toml.
const MaxFileBytes = 1 << 20

// LoadOptions are the sources of a configuration.
type LoadOptions struct {
	// Path is the file's path. Empty means DefaultPath, which may be missing; a path that is given must exist.
	Path string
	// Environ is the environment in the form of os.Environ; nil means an empty one.
	Environ []string
	// Overrides are values of the command line by dotted key ("runtime.max_steps": "3"); lists are separated by commas.
	Overrides map[string]string
}

// Loaded is a configuration with the origins of its values.
type Loaded struct {
	Config Config
	// Path is the path of the file that was read; empty if there is none.
	Path    string
	origins map[string]Origin
	written map[string]string // file values that hold ${}, as they are written
	places  places
}

// Load reads, merges and validates a configuration. Its error is an *Error with every problem found, unless the file
// cannot be read at all. A missing provider key is not an error here: see LLM.CheckCredentials.
func Load(o LoadOptions) (*Loaded, error) {
	l := &loader{
		env:    environment(o.Environ),
		loaded: &Loaded{Config: Default(), origins: map[string]Origin{}, written: map[string]string{}},
	}
	if err := l.file(o.Path); err != nil {
		return nil, err
	}
	l.borrowed()
	l.environ()
	l.flags(o.Overrides)
	if err := l.loaded.Config.Validate(); err != nil {
		l.validated(err)
	}
	if len(l.problems) > 0 {
		return nil, &Error{Problems: l.problems}
	}
	return l.loaded, nil
}

// loader merges the layers into loaded and collects the problems.
type loader struct {
	env      map[string]string
	loaded   *Loaded
	places   places
	problems []Problem
}

// file reads the file's layer. Its error means that loading cannot continue.
func (l *loader) file(path string) error {
	data, err := readFile(path)
	if err != nil || data == nil {
		return err
	}
	if path == "" {
		path = DefaultPath
	}
	l.loaded.Path = path
	tree, problem := parse(path, data)
	if problem != nil {
		return &Error{Problems: []Problem{*problem}}
	}
	l.places = locate(data)
	l.loaded.places = l.places
	l.decode(tree)
	return nil
}

// readFile returns nil if the file is optional and missing.
func readFile(path string) ([]byte, error) {
	optional := path == ""
	if optional {
		path = DefaultPath
	}
	f, err := os.Open(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, unreadable(path, err.Error())
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, unreadable(path, err.Error())
	}
	if len(data) > MaxFileBytes {
		return nil, unreadable(path, fmt.Sprintf("the file is larger than %d bytes; is it an agent.toml?", MaxFileBytes))
	}
	return append([]byte{}, data...), nil
}

func unreadable(path, why string) error {
	return &Error{Problems: []Problem{{Source: path, Message: "reading the configuration: " + why}}}
}

// at returns a problem at a key of the file, or at its value if value is set.
func (l *loader) at(key string, value bool, message string) Problem {
	where := l.places.of(key, value)
	return Problem{Key: key, Source: l.loaded.Path, Line: where.line, Column: where.column, Message: message}
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

// validated adds the problems of Validate with their positions. It skips keys that already have a problem, because
// their values were never set.
func (l *loader) validated(err error) {
	var e *Error
	if !errors.As(err, &e) {
		return
	}
	known := slices.Clone(l.problems)
	for _, p := range e.Problems {
		if slices.ContainsFunc(known, func(k Problem) bool { return overlaps(k.Key, p.Key) }) {
			continue
		}
		if o := l.loaded.nearestOrigin(p.Key); o.Layer == LayerEnvironment || o.Layer == LayerFlag {
			p.Source = o.String()
		} else if where := l.places.nearest(p.Key); where != (place{}) {
			p.Source, p.Line, p.Column = l.loaded.Path, where.line, where.column
		}
		l.add(p)
	}
}

// overlaps reports whether one key equals or contains the other.
func overlaps(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	return a == b || within(a, b) || within(b, a)
}

func within(outer, inner string) bool {
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}
