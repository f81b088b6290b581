package list

import (
	"fmt"
	"strings"

	"aether/sandbox"
)

// faults are what is wrong with files of an operator, who mends them all at once.
type faults struct {
	texts []string
	more  int
}

// add notes one. A line of 0 is the file itself.
func (f *faults) add(path string, line int, entry, why string) {
	f.addError(path, line, fmt.Errorf("%.80q %s", entry, why))
}

// addError notes one that quotes the entry.
func (f *faults) addError(path string, line int, err error) {
	if len(f.texts) == maxFaults {
		f.more++
		return
	}
	if line > 0 {
		path = fmt.Sprintf("%s:%d", path, line)
	}
	f.texts = append(f.texts, fmt.Sprintf("%s: %v", path, err))
}

// err is nil where nothing is wrong.
func (f *faults) err() error {
	if len(f.texts) == 0 {
		return nil
	}
	reason := strings.Join(f.texts, "; ")
	if f.more > 0 {
		reason += fmt.Sprintf("; and %d lines more are wrong", f.more)
	}
	return &sandbox.Error{Class: sandbox.Invalid, Op: "list", Reason: reason}
}
