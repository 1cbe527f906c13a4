package main

import (
	"os"
	"path/filepath"

	"github.com/bulkhead-llm/bulkhead/conformance/cluster/ask"
)

// The tenants: two that share their caches and two that do not.
var tenantKeys = []string{"sk-chaos-harbor-00000000", "sk-chaos-mill-0000000000", "sk-chaos-quarry-00000000", "sk-chaos-orchard-0000000"}

const keysFile = `- key: sk-chaos-harbor-00000000
  tenant: harbor
- key: sk-chaos-mill-0000000000
  tenant: mill
- key: sk-chaos-quarry-00000000
  tenant: quarry
  domain: valley
- key: sk-chaos-orchard-0000000
  tenant: orchard
  domain: valley
`

func writeKeys(dir string) (string, error) {
	path := filepath.Join(dir, "keys.yaml")
	return path, os.WriteFile(path, []byte(keysFile), 0o600)
}

// tenants shares the questions out.
func tenants(questions []ask.Question) []ask.Question {
	for i := range questions {
		questions[i].Key = tenantKeys[i%len(tenantKeys)]
	}
	return questions
}
