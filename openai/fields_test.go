package openai

import (
	"os"
	"strings"
	"testing"

	"github.com/bulkhead-llm/bulkhead"
)

// least is a valid body of each kind, up to where another field fits.
var least = map[string]string{
	"chat":       `{"model":"m","messages":[{"role":"user","content":"Hi"}]`,
	"completion": `{"model":"m","prompt":"Hi"`,
	"tokenize":   `{"prompt":"Hi"`,
	"detokenize": `{"tokens":[]`,
}

var fieldsOf = map[string]func() []FieldInfo{
	"chat": ChatFields, "completion": CompletionFields, "tokenize": TokenizeFields, "detokenize": DetokenizeFields,
}

// Whatever value a field gets, a refusal names that field and the class decides its code.
func TestEveryFieldIsNamed(t *testing.T) {
	values := []string{`null`, `true`, `false`, `0`, `-1`, `1.5`, `1e9`, `""`, `"x"`, `[]`, `[[]]`, `["x"]`, `[{}]`, `{}`, `{"x":1}`}
	for kind, fields := range fieldsOf {
		for _, f := range fields() {
			if strings.Contains(least[kind], `"`+f.Name+`"`) {
				continue
			}
			for _, v := range values {
				_, ref := parsers[kind]([]byte(least[kind] + `,"` + f.Name + `":` + v + `}`))
				checkField(t, kind, f, v, ref)
			}
		}
	}
}

func checkField(t *testing.T, kind string, f FieldInfo, v string, ref *bulkhead.Refusal) {
	t.Helper()
	switch {
	case f.Class == Forbidden && (ref == nil || ref.Code != bulkhead.CodeForbidden):
		t.Errorf("%s: %s %s: %v, want it forbidden", kind, f.Name, v, ref)
	case f.Class == Unsupported && v != "null" && (ref == nil || ref.Code != bulkhead.CodeUnsupported):
		t.Errorf("%s: %s %s: %v, want it unsupported", kind, f.Name, v, ref)
	case f.Class != Forbidden && v == "null" && ref != nil:
		t.Errorf("%s: %s null: %v, want it absent", kind, f.Name, ref)
	case ref == nil || f.Name == "messages" && kind == "tokenize":
	case !strings.HasPrefix(ref.Param, f.Name) || !strings.Contains(ref.Message, f.Name):
		t.Errorf("%s: %s %s: the refusal %+v does not name it", kind, f.Name, v, ref)
	}
}

// Every field of OpenAI's own requests has a class here. The lists are the parameters of the official client.
func TestSpecificationIsCovered(t *testing.T) {
	for _, kind := range []string{"chat", "completion"} {
		data, err := os.ReadFile("testdata/" + kind + "-parameters.txt")
		if err != nil {
			t.Fatal(err)
		}
		classes := map[string]Class{}
		for _, f := range fieldsOf[kind]() {
			classes[f.Name] = f.Class
		}
		for _, name := range strings.Fields(string(data)) {
			switch classes[name] {
			case Done, Ignored, NotYet:
			default:
				t.Errorf("%s: OpenAI's field %s is %q", kind, name, classes[name])
			}
		}
	}
}

// fields.md lists every field with its class, for people. It is written by -update.
func TestFieldsDocument(t *testing.T) {
	var out strings.Builder
	out.WriteString(`# Fields of requests

What is done with each field. A field that is in no list is refused (400, its path in ` + "`param`" + `), as is one of the wrong type
or out of range. Apart from the forbidden ones, null is the same as leaving a field out.

- **done**
- **ignored**: checked for its type and taken; it changes nothing of the answer here
- **not yet**: OpenAI's; only the default is taken, anything else gets 400 ` + "`unsupported_parameter`" + `
- **unsupported**: an extension of SGLang or vLLM: 400 ` + "`unsupported_parameter`" + `
- **forbidden**: would steer the machinery: 400 ` + "`forbidden_parameter`" + `, whatever its value
`)
	for _, e := range []struct {
		route  string
		fields []FieldInfo
	}{
		{"POST /v1/chat/completions", ChatFields()}, {"POST /v1/completions", CompletionFields()},
		{"POST /tokenize", TokenizeFields()}, {"POST /detokenize", DetokenizeFields()},
	} {
		out.WriteString("\n## " + e.route + "\n\n")
		for _, class := range []Class{Done, Ignored, NotYet, Unsupported, Forbidden} {
			var names []string
			for _, f := range e.fields {
				if f.Class == class {
					names = append(names, "`"+f.Name+"`")
				}
			}
			if names != nil {
				out.WriteString("- **" + string(class) + "**: " + strings.Join(names, ", ") + "\n")
			}
		}
	}
	if *update {
		if err := os.WriteFile("fields.md", []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, _ := os.ReadFile("fields.md"); string(old) != out.String() {
		t.Error("fields.md is not what the tables say: run this test with -update")
	}
}
