package main

import (
	"encoding/json"
	"testing"
)

// TestDoctorRunsACommand: doctor says of this host what run shows.
func TestDoctorRunsACommand(t *testing.T) {
	out, err := aether(t, "doctor", "--json").Output()
	var told struct {
		Usable     bool `json:"usable"`
		Facilities []struct{ Name, State, Detail, Remedy string }
	}
	if failed := json.Unmarshal(out, &told); failed != nil {
		t.Fatalf("%v: %s", failed, out)
	}
	ran := run(t, "", "--", "sh", "-c", "exit 0").status == 0
	if told.Usable != ran || (err == nil) != ran {
		t.Errorf("usable is %v, the status %v, and a command ran: %v", told.Usable, err, ran)
	}
	last := told.Facilities[len(told.Facilities)-1]
	if last.Name != "run" || (last.State == "ok") != ran || !ran && last.Remedy == "" {
		t.Errorf("the last line is %+v, and a command ran: %v", last, ran)
	}
}
