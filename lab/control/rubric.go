package control

// Facts of the rubric, in the order in which they are shown.
const (
	Create   = "create"   // a program makes a sandbox by one call
	Exec     = "exec"     // a command's output comes while it runs
	Files    = "files"    // files are written and read by calls
	Schema   = "schema"   // what can be called is described for programs
	Tools    = "tools"    // what can be called can be listed
	Errors   = "errors"   // a failure is data
	Snapshot = "snapshot" // keeping a sandbox is a verb
	Fork     = "fork"     // branching a running one is a verb
	Events   = "events"   // what happens can be followed
	Policy   = "policy"   // what a sandbox may have is stated and held
)

// Facts is the whole rubric.
var Facts = []string{Create, Exec, Files, Schema, Tools, Errors, Snapshot, Fork, Events, Policy}

// shown is what came of a call.
type shown struct {
	holds bool
	proof string
}

// findings are those of one interface.
type findings map[string]shown
