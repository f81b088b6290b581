// Package run is what a run of the lab leaves: records of what was measured, appended to
// a file as they are made, so that a run that was stopped goes on; and the Run that is
// made of them, with figures, facts, scores and reasons for each system and axis. It
// measures nothing; docs/lab.md documents its files.
package run
