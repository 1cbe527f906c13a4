package cluster

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
)

// What decides has no goroutine, lock, clock or I/O of its own.
func TestDecidersArePure(t *testing.T) {
	forbidden := map[string]bool{"sync": true, "sync/atomic": true, "context": true, "os": true, "io": true, "log/slog": true, "crypto/rand": true}
	for _, name := range []string{"facts", "limits", "health", "breaker", "affinity", "choose", "outcome", "settle", "answer", "attempt", "attempt_end", "attempt_time"} {
		f, err := parser.ParseFile(token.NewFileSet(), name+".go", nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path, _ := strconv.Unquote(i.Path.Value); forbidden[path] {
				t.Errorf("%s imports %s", name, path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s has goroutines or channels", name)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since" || n.Sel.Name == "After" || n.Sel.Name == "Until") {
					t.Errorf("%s reads the clock", name)
				}
			}
			return true
		})
	}
}
