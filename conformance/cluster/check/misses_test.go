package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Reports as the clients' runners write them.
var reports = map[string]string{
	"Go": `{"Action":"pass","Package":"p","Test":"TestCreate"}
{"Action":"output","Package":"p","Test":"TestErrors","Output":"over the window"}
{"Action":"fail","Package":"p","Test":"TestErrors"}
{"Action":"fail","Package":"p"}`,
	"Python": `..F
PASSED conformance/python/test_client.py::test_create
FAILED conformance/python/test_client.py::test_no_route - AssertionError: ass...
1 failed, 1 passed in 1.0s`,
	"Node": `TAP version 13
# Subtest: create
ok 1 - create
  ---
  ...
not ok 2 - error: no such route
ok 3 - error: authentication # SKIP`,
	"compatcanary": "pass\tmodels.list\tDiscovered 1 models\nWRONG\tchat.tool_call\tHTTP 400\nscore 45 of 100",
}

func readAll(t *testing.T, change func(map[string]string)) error {
	t.Helper()
	dir := t.TempDir()
	texts := map[string]string{}
	for name, text := range reports {
		texts[name] = text
	}
	change(texts)
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return readReports(dir, newMisses())
}

// What is on the list may fail and nothing else, and a client of which nothing passed was not run.
func TestReadReports(t *testing.T) {
	if err := readAll(t, func(map[string]string) {}); err != nil {
		t.Error(err)
	}
	for client, change := range map[string][2]string{
		"Go":           {"TestErrors", "TestStream"},
		"Python":       {"test_no_route", "test_stream"},
		"Node":         {"error: no such route", "stream"},
		"compatcanary": {"chat.tool_call", "chat.basic"},
	} {
		if err := readAll(t, func(m map[string]string) { m[client] = strings.ReplaceAll(m[client], change[0], change[1]) }); err == nil {
			t.Errorf("%s: a failure of %s is taken for known", client, change[1])
		}
		if err := readAll(t, func(m map[string]string) { m[client] = "it did not run" }); err == nil {
			t.Errorf("%s: a report without tests is taken for a good one", client)
		}
	}
}

// An entry of the list that nothing meets is wrong.
func TestStale(t *testing.T) {
	m := newMisses()
	if m.stale(true) == nil {
		t.Error("a list that nothing meets")
	}
	for i := range missing {
		m.met[i] = []string{"q"}
	}
	if err := m.stale(true); err != nil {
		t.Error(err)
	}
}
