package e2b

import (
	"aether/rest"
)

// absent is what E2B has and the daemon has not, or has elsewhere.
var absent = map[string]string{
	"/templates": "templates are built by /v3/templates, and are nobody else's", "/v2/templates": "templates are built by /v3/templates",
	"/volumecontent": "files of volumes are reached from a sandbox that has them", "/teams": "there are tenants, and no teams", "/nodes": "there is one host",
	"/api-keys": "keys are made by `aether key` and /v1/keys", "/access-tokens": "keys are made by `aether key` and /v1/keys",
}

// absentOperations refuse what is not there, with the reason: nobody is told that something
// was done, or to look for a mistake of their own.
func absentOperations() (list []rest.Operation) {
	for path, reason := range absent {
		do := func(*rest.Visit) error { return unsupported("path", reason) }
		for _, pattern := range []string{path, path + "/"} {
			list = append(list, rest.Operation{Pattern: pattern, Name: "e2b.absent", Do: do})
		}
	}
	return list
}
