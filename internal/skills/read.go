package skills

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/everturn/everturn/internal/printable"
)

// The first three limits are those of the format's specification (agentskills.io, as of 2026-11). The others bound what
// is read from a folder, because other people may have written it.
const (
	maxName          = 64        // bytes
	maxDescription   = 1024      // characters
	maxCompatibility = 500       // characters
	maxFile          = 256 << 10 // bytes of SKILL.md
	maxFrontmatter   = 8 << 10   // bytes; the memory that YAML needs can grow with their square
	maxDepth         = 6
	maxFolders       = 2000
	maxSkills        = 500
	maxResources     = 100 // other files of one skill that are listed

	// File is the name of a skill's file in its folder.
	File = "SKILL.md"
)

// Source is a folder with skills, at most six folders deep. If it is Optional, the folder need not exist.
type Source struct {
	Path     string
	Optional bool
}

// Skill is one skill.
type Skill struct {
	Name          string   `json:"name"`
	Description   string   `json:"description"`
	License       string   `json:"license,omitempty"`
	Compatibility string   `json:"compatibility,omitempty"`
	Tags          []string `json:"tags,omitempty"`     // metadata.tags
	Keywords      []string `json:"keywords,omitempty"` // metadata.keywords, or the description's longer words
	// AllowedTools are the patterns of tool IDs in allowed-tools. Names without a slash, which other agents use, are in
	// OtherTools and have no effect.
	AllowedTools []string `json:"allowed_tools,omitempty"`
	OtherTools   []string `json:"other_tools,omitempty"`
	Folder       string   `json:"folder"`
	Resources    []string `json:"resources,omitempty"` // the other files in Folder, relative to it
	Warnings     []string `json:"warnings,omitempty"`
	Body         string   `json:"-"`
}

// Problem says why the skill in a SKILL.md cannot be used.
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (p Problem) String() string { return p.Path + ": " + p.Message }

// Read reads the skills of the sources. It returns them sorted by name, and the problems of skills that cannot be
// used. If two skills have the same name, the one of the earlier source is used. The error is that of a source that
// cannot be read, or that there are too many skills.
func Read(sources []Source) (found []Skill, problems []Problem, err error) {
	byName := map[string]Skill{}
	for _, source := range sources {
		if source.Path, err = filepath.Abs(source.Path); err != nil {
			return nil, nil, err
		}
		folders, err := source.folders()
		if errors.Is(err, fs.ErrNotExist) && source.Optional {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading the skills of %s: %w", source.Path, err)
		}
		for _, folder := range folders {
			s, err := ReadFolder(folder)
			first, taken := byName[s.Name]
			switch {
			case err != nil:
				problems = append(problems, Problem{Path: filepath.Join(folder, File), Message: err.Error()})
			case taken && first.Folder != s.Folder: // two sources may contain the same folder
				problems = append(problems, Problem{Path: filepath.Join(folder, File),
					Message: fmt.Sprintf("%s has a skill named %s, too, and comes first", first.Folder, s.Name)})
			case len(byName) == maxSkills:
				return nil, nil, fmt.Errorf("reading the skills of %s: there are more than %d skills", source.Path, maxSkills)
			default:
				byName[s.Name] = s
			}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Skill) int { return cmp.Compare(a.Name, b.Name) }), problems,
		nil
}

// folders returns the folders of the source in which SKILL.md is a regular file, sorted by path. It does not follow
// links to folders, not even Path itself, and does not look into folders of skills, hidden folders and node_modules.
func (s Source) folders() (out []string, err error) {
	seen := 0
	err = filepath.WalkDir(s.Path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(s.Path, name)
		if err != nil {
			return err
		}
		depth := 0
		if rel != "." {
			depth = 1 + strings.Count(filepath.ToSlash(rel), "/")
		}
		if seen++; seen > maxFolders {
			return fmt.Errorf("it has more than %d folders", maxFolders)
		}
		if depth > 0 && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if info, err := os.Lstat(filepath.Join(name, File)); err == nil && info.Mode().IsRegular() {
			out = append(out, name)
			return fs.SkipDir
		}
		if depth == maxDepth {
			return fs.SkipDir
		}
		return nil
	})
	return out, err
}

// frontmatter is the YAML at the beginning of a SKILL.md.
type frontmatter struct {
	Name          string         `yaml:"name"`
	Description   string         `yaml:"description"`
	License       string         `yaml:"license"`
	Compatibility string         `yaml:"compatibility"`
	Metadata      map[string]any `yaml:"metadata"`
	AllowedTools  words          `yaml:"allowed-tools"`
}

// words is a YAML list, or a string whose words are separated by spaces or commas.
type words []string

// UnmarshalYAML implements yaml.Unmarshaler.
func (w *words) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.SequenceNode {
		return node.Decode((*[]string)(w))
	}
	var text string
	err := node.Decode(&text)
	*w = splitWords(text)
	return err
}

// splitWords splits a text at commas and white space, except in parentheses: Bash(git add:*) is one word.
func splitWords(text string) []string {
	depth := 0
	return strings.FieldsFunc(text, func(r rune) bool {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		return depth <= 0 && (r == ' ' || r == ',' || r == '\n' || r == '\t')
	})
}

var (
	nameForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	frontForm = regexp.MustCompile(`(?s)\A---[ \t]*\r?\n(.*?\n)---[ \t]*(?:\r?\n|\z)`)
	// bareColon matches a description or compatibility whose unquoted value contains a colon. YAML rejects it, but authors
	// write it.
	bareColon = regexp.MustCompile(`(?m)^(description|compatibility):[ \t]+([^"'|>\s].*: .*)$`)
)

// ReadFolder reads the skill in a folder. The error says what is wrong with its SKILL.md.
func ReadFolder(folder string) (Skill, error) {
	text, err := readFile(filepath.Join(folder, File))
	if err != nil {
		return Skill{}, err
	}
	s, err := parse(text)
	if err != nil {
		return Skill{}, err
	}
	if s.Folder, err = filepath.Abs(folder); err != nil {
		return Skill{}, err
	}
	if base := filepath.Base(s.Folder); s.Name != base {
		s.Warnings = append(s.Warnings, fmt.Sprintf("the name is %s and the folder is %s; the format wants the same", s.Name,
			base))
	}
	s.Resources, err = resources(folder)
	return s, err
}

// readFile returns the text of a file. It refuses files over maxFile and files that are not UTF-8 text.
func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("it is larger than %d KiB; move parts of it to files beside it", maxFile>>10)
	}
	if !utf8.Valid(b) || bytes.ContainsRune(b, 0) {
		return "", errors.New("it is not a UTF-8 text")
	}
	return string(b), nil
}

// parse reads a skill from the text of its SKILL.md.
func parse(text string) (Skill, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	m := frontForm.FindStringSubmatchIndex(text)
	if m == nil {
		return Skill{}, errors.New("it does not begin with frontmatter: a line ---, keys such as name and description, and " +
			"another line ---")
	}
	head, body := text[m[2]:m[3]], strings.TrimSpace(text[m[1]:])
	if len(head) > maxFrontmatter {
		return Skill{}, fmt.Errorf("its frontmatter is larger than %d KiB; move parts of it below the second line ---",
			maxFrontmatter>>10)
	}
	var f frontmatter
	if err := yaml.Unmarshal([]byte(head), &f); err != nil { // try again with quotes around values with colons
		if yaml.Unmarshal([]byte(bareColon.ReplaceAllStringFunc(head, quoteValue)), &f) != nil {
			return Skill{}, fmt.Errorf("its frontmatter is not valid YAML: %w", err)
		}
	}
	s := Skill{
		Name: strings.TrimSpace(f.Name), Description: strings.Join(strings.Fields(printable.Sanitize(f.Description)), " "),
		License:       printable.Line(f.License, 200),
		Compatibility: printable.Line(f.Compatibility, maxCompatibility*4), Body: printable.Sanitize(body),
		Tags: metadataWords(f.Metadata["tags"]), Keywords: metadataWords(f.Metadata["keywords"]),
	}
	if err := s.check(); err != nil {
		return Skill{}, err
	}
	for _, t := range f.AllowedTools {
		if t == "*" || strings.Contains(t, "/") && !strings.Contains(t, "(") {
			s.AllowedTools = append(s.AllowedTools, t)
		} else {
			s.OtherTools = append(s.OtherTools, t)
		}
	}
	if len(s.OtherTools) > 0 {
		s.Warnings = append(s.Warnings, "allowed-tools names tools of other agents, which have no effect here: "+
			printable.Line(strings.Join(s.OtherTools, " "), 200))
	}
	if len(s.Keywords) == 0 {
		s.Keywords = longWords(s.Description)
	}
	return s, nil
}

// check returns an error if a required key of the frontmatter is missing, or a value exceeds its limit.
func (s Skill) check() error {
	switch {
	case s.Name == "":
		return errors.New("its frontmatter has no name")
	case len(s.Name) > maxName || !nameForm.MatchString(s.Name):
		return fmt.Errorf("its name is %q; a name is up to %d of a-z, 0-9 and single hyphens between them",
			printable.Line(s.Name, maxName), maxName)
	case s.Description == "":
		return errors.New("its frontmatter has no description; models and the selection need one")
	case utf8.RuneCountInString(s.Description) > maxDescription:
		return fmt.Errorf("its description has more than %d characters", maxDescription)
	case utf8.RuneCountInString(s.Compatibility) > maxCompatibility:
		return fmt.Errorf("its compatibility has more than %d characters", maxCompatibility)
	}
	return nil
}

// quoteValue quotes the value of a line that bareColon matches.
func quoteValue(line string) string {
	key, value, _ := strings.Cut(line, ":")
	return key + ": '" + strings.ReplaceAll(strings.TrimSpace(value), "'", "''") + "'"
}

// metadataWords returns a value of the frontmatter's metadata as at most 100 sorted words in lower case. The value is a
// list, or a string whose words are separated by commas or spaces.
func metadataWords(v any) (out []string) {
	switch v := v.(type) {
	case string:
		out = splitWords(v)
	case []any:
		for _, e := range v {
			if text, ok := e.(string); ok {
				out = append(out, text)
			}
		}
	}
	for i := range out {
		out[i] = strings.ToLower(printable.Line(out[i], 60))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), 100)]
}

// resources returns the regular files of a skill's folder except SKILL.md and hidden ones, relative to the folder and
// sorted by path. It returns at most maxResources, and none below maxDepth folders.
func resources(folder string) (out []string, err error) {
	err = filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, name)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil || rel == ".":
			return err
		case strings.HasPrefix(d.Name(), ".") || strings.Count(rel, "/") >= maxDepth:
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && rel != File:
			out = append(out, path.Clean(rel))
		}
		if len(out) == maxResources {
			return fs.SkipAll
		}
		return nil
	})
	return out, err
}
