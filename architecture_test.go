package bulkhead_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the project that is not a test.
type source struct {
	path, dir string
	file      *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == "conformance"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		all = append(all, source{path, filepath.ToSlash(filepath.Dir(path)), f})
		return err
	})
	if err != nil || len(all) < 50 {
		t.Fatalf("%d files read: %v", len(all), err)
	}
	return all
}

func (s source) imports() []string {
	var paths []string
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

// The vocabulary imports the standard library only.
func TestRootImportsNothing(t *testing.T) {
	for _, s := range sources(t) {
		for _, p := range s.imports() {
			if s.dir == "." && strings.Contains(p, ".") {
				t.Errorf("%s imports %s", s.path, p)
			}
		}
	}
}

// What decides owns no goroutine, lock, clock or I/O, so that tests and a simulator can drive it.
func TestDecidersArePure(t *testing.T) {
	forbidden := []string{"sync", "sync/atomic", "os", "io", "net", "net/http", "context", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand"}
	for _, s := range sources(t) {
		if s.dir != "kv" && s.dir != "sched" && s.dir != "handoff" {
			continue
		}
		for _, p := range s.imports() {
			if slices.Contains(forbidden, p) {
				t.Errorf("%s imports %s", s.path, p)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s has goroutines or channels", s.path)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since" || n.Sel.Name == "After") {
					t.Errorf("%s reads the clock", s.path)
				}
			}
			return true
		})
	}
}

// What leaves the guards out is there to be measured, and only the benchmark that measures it can come by it.
func TestGuardsCannotBeLeftOut(t *testing.T) {
	allowed := map[string]bool{"cmd/bulkhead/bench_guards.go": true, "cmd/bulkhead/bench_decode.go": true, "cmd/bulkhead/bench_load.go": true}
	for _, s := range sources(t) {
		if strings.HasPrefix(s.dir, "engine") || allowed[filepath.ToSlash(s.path)] {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && (strings.EqualFold(id.Name, "unguarded") || id.Name == "AttendUnguarded" || id.Name == "noSums") {
				t.Errorf("%s speaks of %s", s.path, id.Name)
			}
			return true
		})
	}
}
