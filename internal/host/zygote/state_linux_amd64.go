package zygote

import "fmt"

// phase is what a zygote can do.
type phase string

const (
	empty   phase = "empty"    // it has nothing of a process yet
	onFiles phase = "on files" // it never will: its forks take their memory from files
	current phase = "current"  // it has the memory of the last checkpoint
	behind  phase = "behind"   // only its warm fork has that; what has changed is noted
	dead    phase = "dead"     // it cannot be forked any more
)

// phases are those that may follow each.
var phases = map[phase][]phase{
	empty:   {onFiles, current, dead},
	onFiles: {dead},
	current: {current, behind, dead},
	behind:  {current, dead},
	dead:    {dead},
}

// warmState is how far a warm fork has come.
type warmState string

const (
	idle     warmState = "idle"     // it stands by, outside of all cells
	assigned warmState = "assigned" // it has been sent the cell that it is for
	joining  warmState = "joining"  // it is on its way there, or has failed on it
	joined   warmState = "joined"   // it stands by in the cell, or has exited
)

// warmStates are those that may follow each.
var warmStates = map[warmState][]warmState{
	idle:     {assigned},
	assigned: {joining},
	joining:  {joined},
	joined:   {},
}

// advance changes a state. One that does not follow is a defect of this package, of
// which nothing is known any more: the zygote would write over a script that is
// being run.
func advance[S comparable](table map[S][]S, state *S, next S) {
	for _, allowed := range table[*state] {
		if allowed == next {
			*state = next
			return
		}
	}
	panic(fmt.Sprintf("zygote: %v cannot follow %v", next, *state))
}
