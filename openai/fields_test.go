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
