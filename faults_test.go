package bulkhead_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/faults.md names is there, in the package that it names.
func TestFaultsNamesTests(t *testing.T) {
	text, err := os.ReadFile("docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+): (Test[A-Z]\\w*)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 50 {
		t.Fatalf("only %d tests are named: has the way of naming them changed?", len(named))
	}
	files := map[string]string{} // the tests of a package, as text
	for _, n := range named {
		pkg, test := n[1], n[2]
		if test == "TestX" { // how names are to be read
			continue
		}
		if _, ok := files[pkg]; !ok {
			files[pkg] = testsOf(t, pkg)
		}
		if !strings.Contains(files[pkg], "func "+test+"(") {
			t.Errorf("docs/faults.md names `%s: %s`, which does not exist", pkg, test)
		}
	}
}

func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	dir := pkg
	if pkg == "bulkhead" {
		dir = "."
	}
	paths, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	if err != nil || len(paths) == 0 {
		t.Errorf("docs/faults.md names package %s, which has no tests: %v", pkg, err)
	}
	var all strings.Builder
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return all.String()
}
