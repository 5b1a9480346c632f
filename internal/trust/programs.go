package trust

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/everturn/everturn/config"
)

// maxPlaces bounds the words of a server's command line, multiplied by the directories in which they may be files.
const maxPlaces = 100_000

// Program is a file that an MCP server may run. It may be missing.
type Program struct {
	Path     string // absolute; links are not followed
	Relative bool   // the settings name it relative to the server's directory
}

// Programs returns the files that a server's command, arguments and environment name. A name may be part of an argument,
// as in --require=x.js and sh -c "cd tools && python x.py". It is resolved in the server's directory, in each directory
// that an argument names, as in uv --directory DIR run FILE, and in those of PATH. Programs returns a file that does not
// exist if it is the command or its name looks like a path. If the server's directory is relative, it is below root.
// lookup returns the value of an environment variable. Programs returns an error if it had to look for more than 100,000
// files.
func Programs(s config.MCPServer, root string, lookup func(string) string) ([]Program, error) {
	if s.Command == "" {
		return nil, nil
	}
	dir := from(root, expand(s.Dir, lookup))
	words := wordsOf(s, lookup)
	bases := []Program{{dir, true}}
	add := func(name string) {
		if base := (Program{from(dir, name), !filepath.IsAbs(name)}); !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	for _, word := range words {
		if isDirectory(from(dir, word)) {
			add(word)
		}
	}
	for _, name := range filepath.SplitList(cmp.Or(expand(s.Env["PATH"].Reveal(), lookup), lookup("PATH"))) {
		add(name)
	}
	if len(words)*len(bases) > maxPlaces {
		return nil, fmt.Errorf("the command line of MCP server %q has %d words and names %d directories, which is too much "+
			"to find its programs: move it to a script", s.ID, len(words), len(bases))
	}
	command := expand(s.Command, lookup)
	var found []Program
	for _, word := range words {
		for _, base := range bases {
			path := from(base.Path, word)
			info, err := os.Stat(path)
			missing := err != nil && !strings.HasPrefix(word, "-") && (word == command || strings.ContainsAny(word, "./"))
			if missing || err == nil && info.Mode().IsRegular() {
				found = append(found, Program{path, base.Relative && !filepath.IsAbs(word)})
			}
		}
	}
	slices.SortFunc(found, func(a, b Program) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(found), nil
}

// wordsOf returns what may be a path in a server's command, arguments and environment, each once.
func wordsOf(s config.MCPServer, lookup func(string) string) []string {
	written := append([]string{s.Command}, s.Args...)
	for _, value := range s.Env {
		written = append(written, value.Reveal())
	}
	var words []string
	for _, w := range written {
		for _, text := range []string{w, expand(w, lookup)} {
			words = append(words, text)
			words = append(words, strings.FieldsFunc(text, separates)...)
		}
	}
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(w string) bool { return w == "" })
}

// separates reports whether r ends a path in an argument.
func separates(r rune) bool { return strings.ContainsRune(" \t\n=:,;&|'\"`()<>", r) }

// expand replaces references to environment variables, as package config does.
func expand(s string, lookup func(string) string) string {
	return os.Expand(s, func(name string) string {
		name, otherwise, _ := strings.Cut(name, ":-")
		if value := lookup(name); value != "" {
			return value
		}
		return otherwise
	})
}

// from returns path, joined to dir unless it is absolute.
func from(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
