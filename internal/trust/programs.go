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

// maxPlaces bounds the number of paths that Programs examines: the words of a server's command line times the
// directories in which they are resolved.
const maxPlaces = 100_000

// Program is a file that an MCP server may run. It may be missing.
type Program struct {
	Path     string // absolute; links are not followed
	Relative bool   // the settings name it relative to the server's directory
}

// Programs returns the files that a server's command, arguments and environment name. A name may be a part of an
// argument, as in --require=x.js, -rx.js, @x.js and sh -c "cd tools && python x.py". Patterns such as *.js are not
// expanded. Each name is resolved in the server's directory, in each directory that an argument names, as in
// uv --directory DIR run FILE, and in the directories of PATH. A file that does not exist is returned if it is the
// command or its name looks like a path. If the server's directory is relative, it is below root. lookup returns the
// value of an environment variable. Programs returns an error if it would have to examine more than 100,000 paths.
func Programs(s config.MCPServer, root string, lookup func(string) string) ([]Program, error) {
	if s.Command == "" {
		return nil, nil
	}
	dir := absolute(root, config.Expand(s.Dir, lookup))
	words := wordsOf(s, lookup)
	bases := []Program{{dir, true}} // the directories in which names are resolved
	add := func(name string) {
		for _, path := range pathsOf(dir, name) {
			if base := (Program{path, !filepath.IsAbs(name)}); !slices.Contains(bases, base) {
				bases = append(bases, base)
			}
		}
	}
	for _, word := range words {
		if strings.HasPrefix(word, "/proc/") {
			return nil, fmt.Errorf("MCP server %q names %s, which can be another file in each process: name it directly", s.ID, word)
		}
		if slices.ContainsFunc(pathsOf(dir, word), isDirectory) {
			add(word)
		}
	}
	for _, name := range filepath.SplitList(cmp.Or(config.Expand(s.Env["PATH"].Reveal(), lookup), lookup("PATH"))) {
		add(name)
	}
	if len(words)*len(bases) > maxPlaces {
		return nil, fmt.Errorf("the command line of MCP server %q has %d words and names %d directories, which is too much "+
			"to find its programs: move it to a script", s.ID, len(words), len(bases))
	}
	command := config.Expand(s.Command, lookup)
	var found []Program
	for _, word := range words {
		for _, base := range bases {
			for _, path := range pathsOf(base.Path, word) {
				info, err := os.Stat(path)
				// The model must not create a missing file that the server would then run.
				missing := err != nil && !strings.HasPrefix(word, "-") && (word == command || strings.ContainsAny(word, "./"))
				relative := base.Relative && !filepath.IsAbs(word)
				if missing || err == nil && info.Mode().IsRegular() {
					found = append(found, Program{path, relative})
				}
				if missing && strings.Contains(word, "/") { // an interpreter may complete the name: node ./server
					for _, completed := range withExtension(path) {
						found = append(found, Program{completed, relative})
					}
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b Program) int { return strings.Compare(a.Path, b.Path) })
	return slices.Compact(found), nil
}

// wordsOf returns the texts in a server's command, arguments and environment that may be paths, each once, before and
// after variables are expanded.
func wordsOf(s config.MCPServer, lookup func(string) string) []string {
	written := append([]string{s.Command}, s.Args...)
	for _, value := range s.Env {
		written = append(written, value.Reveal())
	}
	var words []string
	for _, w := range written {
		for _, text := range []string{w, config.Expand(w, lookup), shellExpand(w, lookup)} {
			words = append(words, namesIn(text)...)
		}
	}
	slices.Sort(words)
	return slices.DeleteFunc(slices.Compact(words), func(w string) bool { return w == "" })
}

// namesIn returns the parts of an argument that may be paths: the argument, what follows its first "=", and its words.
// A part that begins with a short flag or with "@" is also returned without them.
func namesIn(argument string) []string {
	_, value, _ := strings.Cut(argument, "=")
	names := append([]string{argument, value}, strings.FieldsFunc(argument, isSeparator)...)
	for _, name := range names {
		if len(name) > 2 && name[0] == '-' && name[1] != '-' {
			name = name[2:]
			names = append(names, name)
		}
		names = append(names, strings.TrimPrefix(name, "@"))
	}
	return names
}

// isSeparator reports whether r stands between the words of an argument.
func isSeparator(r rune) bool { return strings.ContainsRune(" \t\n=:,;&|'\"`()<>", r) }

// shellExpand replaces $NAME, ${NAME} and ${NAME:-default} in s, as a shell does.
func shellExpand(s string, lookup func(string) string) string {
	return os.Expand(s, func(name string) string {
		name, otherwise, _ := strings.Cut(name, ":-")
		return cmp.Or(lookup(name), otherwise)
	})
}

// pathsOf returns the paths that a name in the directory dir may mean. "link/.." is the parent of the link's target for
// the kernel, and the directory with the link for a program that cleans the name.
func pathsOf(dir, name string) []string {
	paths := []string{absolute(dir, name)}
	if strings.Contains(name, "..") {
		if !filepath.IsAbs(name) {
			name = dir + string(filepath.Separator) + name
		}
		if real, err := filepath.EvalSymlinks(name); err == nil && real != paths[0] {
			paths = append(paths, real)
		}
	}
	return paths
}

// absolute returns path, joined to dir unless it is absolute already.
func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// withExtension returns the existing files, at most 100, whose names are that of path with an extension.
func withExtension(path string) (files []string) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // none if the directory cannot be read
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+".") && len(files) < 100 {
			files = append(files, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return files
}

// isRegular reports whether path is an existing regular file.
func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// isDirectory reports whether path is an existing directory.
func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
