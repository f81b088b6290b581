package interpreter_test

import (
	"os/exec"
	"strings"
	"testing"

	"aether/interpreter"
	"aether/sandbox"
)

// TestTypeScriptOfAnOldNode has one that cannot strip types say so, and what would mend it.
// One that can is tried in cmd/aether, where the packages of a registry are to be had.
func TestTypeScriptOfAnOldNode(t *testing.T) {
	need(t, interpreter.Node)
	out, err := exec.CommandContext(t.Context(), "node", "-p", "typeof require('module').stripTypeScriptTypes").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(out)) == "function" {
		t.Skip("the host's node strips types")
	}
	_, err = interpreter.Start(t.Context(), newClient(t, sandbox.Spec{}), interpreter.TypeScript, interpreter.Options{})
	if sandbox.ClassOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), "22.13") {
		t.Errorf("it is told %v", err)
	}
}
