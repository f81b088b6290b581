package cell_test

import (
	"encoding/json"
	"testing"

	"aether/sandbox"
)

// TestCheckRestore says beforehand what Restore says.
func TestCheckRestore(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	converse(t, source, 0, "python3", "-c", adder).hear(t, "primed")
	kept := checkpointOf(t, source)
	if err := driver.CheckRestore(t.Context(), kept, sandbox.Checkpoint); err != nil {
		t.Fatal(err)
	}
	processes := func(doc map[string]any) map[string]any { return doc["processes"].(map[string]any) }
	for says, change := range map[string]func(map[string]any){
		"another kernel": func(doc map[string]any) { processes(doc)["machine"].(map[string]any)["kernel"] = "00" },
		"another file": func(doc map[string]any) {
			processes(doc)["files"].([]any)[0].(map[string]any)["modified"] = json.Number("1")
		},
	} {
		dir := damage(t, kept, change)
		wantRefusal(t, driver.CheckRestore(t.Context(), dir, sandbox.Checkpoint), sandbox.Conflict, says)
		_, err := driver.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{})
		wantRefusal(t, err, sandbox.Conflict, says)
		if err := driver.CheckRestore(t.Context(), dir, sandbox.Filesystem); err != nil {
			t.Errorf("its files: %v", err)
		}
	}
	if err := driver.CheckRestore(t.Context(), t.TempDir(), sandbox.Checkpoint); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("no snapshot: %v", err)
	}
}
