package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// target is a fuzz target of a package.
type target struct {
	pkg    string // import path
	module string // its module's path
	root   string // its module's folder
	dir    string // its own folder
	name   string
}

// short is the package's path within the module.
func (t target) short() string { return strings.TrimPrefix(t.pkg, t.module+"/") }

// listed is the output of go list for a package.
type listed struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
	Module                    struct{ Path, Dir string }
}

// find lists the module's fuzz targets that match, in the order of their packages and files.
func find(ctx context.Context, only *regexp.Regexp) ([]target, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,Module", "./...")
	cmd.Cancel = func() error { return cmd.Process.Kill() }
	said, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("listing the packages: %w", err)
	}
	var all []target
	for dec := json.NewDecoder(strings.NewReader(string(said))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing the packages: %w", err)
		}
		for _, file := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			names, err := targetsIn(filepath.Join(p.Dir, file), nil)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				t := target{pkg: p.ImportPath, module: p.Module.Path, root: p.Module.Dir, dir: p.Dir, name: name}
				if only.MatchString(t.short() + "." + name) {
					all = append(all, t)
				}
			}
		}
	}
}

// targetsIn returns the names of the functions FuzzX(*testing.F) of a file. If src is not nil, it is used instead of
// the file.
func targetsIn(file string, src any) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("reading a test file: %w", err)
	}
	var names []string
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && takesF(f.Type) {
			names = append(names, f.Name.Name)
		}
	}
	return names, nil
}

func takesF(f *ast.FuncType) bool {
	if f.Results != nil || len(f.Params.List) != 1 {
		return false
	}
	star, ok := f.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "F"
}
