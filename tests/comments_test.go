package tests

import (
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	anyWord = regexp.MustCompile(`[A-Za-z]\w*`)
	// identifier matches what has the form of an identifier: capitals inside of a word, or a call. The groups are the
	// package before it, the name, and the extension of a file.
	identifier = regexp.MustCompile(`(?:\b(\w+)\.)?\b([A-Za-z]*[a-z][a-z0-9]*[A-Z]\w*|[A-Za-z]\w*\(\))(\.[a-z]+\b)?`)
	// firstWord matches the first word of documentation that should be the name of what is documented.
	firstWord = regexp.MustCompile(`^([A-Z]\w*) (is|are|returns|reports)\b`)
	// reference matches a reference to something in the same package.
	reference = regexp.MustCompile(`\(see ([A-Z]\w+)\)`)
)

// words are those of the repository that are not in comments of Go: in code, settings, SQL, scripts and documents.
type words map[string]bool

func (w words) add(text string) {
	for _, s := range anyWord.FindAllString(text, -1) {
		w[s] = true
	}
}

// source is the Go files of all modules of the repository.
type source struct {
	fset       *token.FileSet
	files      map[string]*ast.File
	words      words
	names      words            // of the packages
	packages   map[string]words // the words of each folder's code
	named      map[string]words // the words of the code of all packages with a name, and of their tests
	hidden     map[string]words // the unexported functions, methods, types, constants and variables of each folder
	unexported words            // those of all folders
}

// readSource reads the repository, once.
var readSource = sync.OnceValues(func() (source, error) {
	s := source{token.NewFileSet(), map[string]*ast.File{}, words{}, words{}, map[string]words{}, map[string]words{}, map[string]words{}, words{}}
	return s, filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(p)
		if err == nil && filepath.Ext(p) == ".go" {
			return s.read(p, b)
		}
		s.words.add(string(b[:min(len(b), 1<<20)]))
		return err
	})
})

func (s source) read(p string, b []byte) error {
	dir := filepath.Dir(p)
	if s.packages[dir] == nil {
		s.packages[dir], s.hidden[dir] = words{}, words{}
	}
	f, err := parser.ParseFile(s.fset, p, b, parser.ParseComments)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(f.Name.Name, "_test")
	if s.named[name] == nil {
		s.named[name] = words{}
	}
	var code scanner.Scanner
	code.Init(token.NewFileSet().AddFile(p, -1, len(b)), b, nil, 0)
	for _, tok, text := code.Scan(); tok != token.EOF; _, tok, text = code.Scan() {
		s.words.add(text)
		s.packages[dir].add(text)
		s.named[name].add(text)
	}
	s.files[p], s.names[f.Name.Name] = f, true
	for _, d := range f.Decls {
		for _, id := range declared(d) {
			s.hidden[dir][id.Name] = !id.IsExported()
			s.unexported[id.Name] = !id.IsExported()
		}
	}
	return nil
}

// declared returns the names of a declaration.
func declared(d ast.Decl) (ids []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		ids = append(ids, d.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				ids = append(ids, spec.Names...)
			case *ast.TypeSpec:
				ids = append(ids, spec.Name)
			}
		}
	}
	return ids
}

// has reports whether a name exists. A name that is one word elsewhere, such as a provider's, is a proper name.
func (s source) has(name string) bool { return s.words[name] || s.words[strings.ToLower(name)] }

// TestCommentsNameWhatExists finds identifiers in comments that the code does not have. A name with a package must be
// in that package, and an unexported name in the package of the comment. Names of other modules count if they come with
// their package.
func TestCommentsNameWhatExists(t *testing.T) {
	s, err := readSource()
	require.NoError(t, err)
	for p, f := range s.files {
		for _, group := range f.Comments {
			for _, m := range identifier.FindAllStringSubmatch(group.Text(), -1) {
				name := strings.TrimSuffix(m[2], "()")
				foreign := m[1] != "" && (!s.names[m[1]] || importsForeign(f, m[1])) || m[3] != "" || name == "main"
				exists := s.has(name)
				switch {
				case s.named[m[1]] != nil:
					exists = s.named[m[1]][name]
				case m[1] == "" && s.unexported[name]:
					exists = s.packages[filepath.Dir(p)][name]
				}
				assert.True(t, foreign || exists, "%s: the comment names %s, which does not exist there",
					s.fset.Position(group.Pos()), m[0])
			}
			for _, m := range reference.FindAllStringSubmatch(group.Text(), -1) {
				assert.True(t, s.packages[filepath.Dir(p)][m[1]], "%s: the comment points to %s, which is not in its package",
					s.fset.Position(group.Pos()), m[1])
			}
		}
	}
}

// importsForeign reports whether a file imports a package of another module by this name.
func importsForeign(f *ast.File, name string) bool {
	return slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool {
		p := strings.Trim(s.Path.Value, `"`)
		return s.Name == nil && path.Base(p) == name && !strings.HasPrefix(p, "github.com/everturn/everturn/")
	})
}

// TestDocumentationNamesWhatItsReaderSees finds unexported names in the documentation of exported ones.
func TestDocumentationNamesWhatItsReaderSees(t *testing.T) {
	s, err := readSource()
	require.NoError(t, err)
	for p, f := range s.files {
		if strings.HasSuffix(p, "_test.go") || f.Name.Name == "main" {
			continue
		}
		for _, doc := range exportedDocs(f) {
			for _, m := range identifier.FindAllStringSubmatch(doc.Text(), -1) {
				name := strings.TrimSuffix(m[2], "()")
				assert.False(t, m[1] == "" && s.hidden[filepath.Dir(p)][name], "%s: the documentation names the unexported %s",
					s.fset.Position(doc.Pos()), name)
			}
		}
	}
}

// TestDocumentationBeginsWithItsName finds documentation that kept the name that something had before.
func TestDocumentationBeginsWithItsName(t *testing.T) {
	s, err := readSource()
	require.NoError(t, err)
	for _, f := range s.files {
		ast.Inspect(f, func(n ast.Node) bool {
			doc, ids := documented(n)
			if m := firstWord.FindStringSubmatch(doc.Text()); m != nil && len(ids) > 0 {
				begins := slices.ContainsFunc(ids, func(id *ast.Ident) bool { return id.Name == m[1] })
				assert.True(t, begins, "%s: the documentation of %s begins with %s", s.fset.Position(doc.Pos()), ids[0].Name,
					m[1])
			}
			return true
		})
	}
}

// documented returns the documentation of a declaration or field, and its names.
func documented(n ast.Node) (*ast.CommentGroup, []*ast.Ident) {
	switch n := n.(type) {
	case *ast.Field:
		return n.Doc, n.Names
	case *ast.ValueSpec:
		return n.Doc, n.Names
	case *ast.FuncDecl:
		return n.Doc, declared(n)
	case *ast.GenDecl:
		if len(n.Specs) == 1 {
			return n.Doc, declared(n)
		}
	}
	return nil, nil
}

// exportedDocs returns the documentation of a file's package, exported declarations and exported fields.
func exportedDocs(f *ast.File) []*ast.CommentGroup {
	docs := []*ast.CommentGroup{f.Doc}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || isExportedReceiver(d.Recv)) {
				docs = append(docs, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				docs = append(docs, specDocs(d, spec)...)
			}
		}
	}
	return docs
}

func isExportedReceiver(recv *ast.FieldList) (exported bool) {
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		exported = exported || ok && id.IsExported()
		return true
	})
	return exported
}

func specDocs(d *ast.GenDecl, spec ast.Spec) (docs []*ast.CommentGroup) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		if spec.Names[0].IsExported() {
			docs = append(docs, spec.Doc, spec.Comment)
			if len(d.Specs) == 1 { // that of a group is also for its unexported names
				docs = append(docs, d.Doc)
			}
		}
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return nil
		}
		docs = append(docs, d.Doc, spec.Doc)
		if of, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range of.Fields.List {
				if len(field.Names) == 0 || field.Names[0].IsExported() {
					docs = append(docs, field.Doc, field.Comment)
				}
			}
		}
	}
	return docs
}
