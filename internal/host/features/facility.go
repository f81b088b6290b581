package features

import (
	"errors"

	"aether/sandbox"
)

// State says how much of a facility there is.
type State string

const (
	OK      State = "ok"
	Limited State = "limited" // there, but not all of it
	Missing State = "missing"
)

// Facility is one thing that a host may offer to sandboxes.
type Facility struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Required: without it the built-in engine cannot run at all.
	Required bool `json:"required"`
	// Detail is what was found.
	Detail string `json:"detail"`
	// Cost is what its lack costs; empty if and only if State is OK.
	Cost string `json:"cost,omitempty"`
	// Remedy is what would mend it, empty where nothing would.
	Remedy string `json:"remedy,omitempty"`
}

// Sufficient says whether the built-in engine can run with these facilities.
func Sufficient(found []Facility) bool {
	for _, f := range found {
		if f.Required && f.State == Missing {
			return false
		}
	}
	return len(found) > 0
}

// Judge fills in the state of a facility that is there or not: f.Detail says
// what it is if err is nil, err why it is not otherwise. A typed error brings a
// better remedy than the usual one.
func Judge(f Facility, err error) Facility {
	if err == nil {
		f.State, f.Cost, f.Remedy = OK, "", ""
		return f
	}
	f.State, f.Detail = Missing, err.Error()
	var typed *sandbox.Error
	if errors.As(err, &typed) {
		f.Detail, f.Remedy = typed.Reason, typed.Remedy
		if typed.Err != nil {
			f.Detail += ": " + typed.Err.Error()
		}
	}
	return f
}
