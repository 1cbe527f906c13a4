package jinja

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead/internal/testdata"
)

// The 51 renderings of 17 models' templates by Python's jinja2, byte for byte; where that refuses, so must this.
func TestReferenceRenderings(t *testing.T) {
	var cases map[string]json.RawMessage
	var reference map[string]string
	if err := json.Unmarshal(testdata.Read(t, "templates", "cases.json"), &cases); err != nil {
		t.Fatal(err)
	}
	ref, now := testdata.Renderings(t)
	if err := json.Unmarshal(ref, &reference); err != nil {
		t.Fatal(err)
	}
	if len(reference) != 51 {
		t.Fatalf("%d renderings, want 51", len(reference))
	}
	for name, want := range reference {
		t.Run(name, func(t *testing.T) {
			file, which, _ := strings.Cut(name, "#")
			tmpl, err := Parse(string(testdata.Read(t, "templates", file)))
			if err != nil {
				t.Fatal(err)
			}
			v, err := FromJSON(cases[which])
			if err != nil {
				t.Fatal(err)
			}
			got, err := tmpl.Render(v.(*Dict).values, Options{Now: now})
			if wantErr, refused := strings.CutPrefix(want, "ERR "); refused {
				var raised *Raised
				var failed *Error
				if errors.As(err, &raised) && raised.Text != wantErr || errors.As(err, &failed) && failed.Text != wantErr || err == nil {
					t.Fatalf("got %q and error %v, want error %q", got.String(), err, wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != want {
				t.Errorf("got  %q\nwant %q", got.String(), want)
			}
		})
	}
}
