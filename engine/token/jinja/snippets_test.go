package jinja

import (
	"encoding/json"
	"os"
	"testing"
)

// Small templates of everything the language has, against Python's jinja2: testdata/snippets.py writes what it says.
func TestSnippets(t *testing.T) {
	data, err := os.ReadFile("testdata/snippets.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Names    json.RawMessage
		Snippets []struct{ Template, Want, Error string }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for _, s := range file.Snippets {
		names, err := FromJSON(file.Names)
		if err != nil {
			t.Fatal(err)
		}
		got, err := render(s.Template, names)
		switch {
		case s.Error != "" && err == nil:
			t.Errorf("%s\ngot  %q\nwant an error (%s)", s.Template, got, s.Error)
		case s.Error == "" && err != nil:
			t.Errorf("%s\nerror %v\nwant  %q", s.Template, err, s.Want)
		case s.Error == "" && got.String() != s.Want:
			t.Errorf("%s\ngot  %q\nwant %q", s.Template, got, s.Want)
		}
	}
}

func render(src string, names Value) (Str, error) {
	tmpl, err := Parse(src)
	if err != nil {
		return Str{}, err
	}
	return tmpl.Render(names.(*Dict).values, Options{})
}
