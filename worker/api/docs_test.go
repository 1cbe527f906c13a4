package api

import (
	"os"
	"strings"
	"testing"
)

// docs/worker-api.md names every route, every field of a router's and every field that is dropped.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/worker-api.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(data)
	for path := range routes {
		if path = strings.TrimSuffix(path, "/"); !strings.Contains(doc, path+"`") {
			t.Errorf("the document does not name %s", path)
		}
	}
	for name := range controlFields {
		if !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("the document does not name %s", name)
		}
	}
	for name, values := range inert {
		line := ""
		for _, l := range strings.Split(doc, "\n") {
			if strings.HasPrefix(l, "| `") && strings.Contains(l, "`"+name+"`") {
				line = l
			}
		}
		want := "only null"
		if len(values) == 2 {
			want = "any boolean"
		} else if len(values) == 1 {
			want = "`" + values[0] + "`"
		}
		if !strings.HasSuffix(line, "| "+want+" |") {
			t.Errorf("the document says %q of %s, want %s", line, name, want)
		}
	}
}
