package confine

import (
	"errors"

	"aether/internal/host/spawn"
)

// Fault is a step of a set-up that failed. The same errno means different things
// in different parts: ENOENT is a program that does not exist only where the
// program is executed.
type Fault struct {
	// Part is what the step belongs to, as Explain names it.
	Part string
	Err  error // the *spawn.Failure
}

// Parts that callers tell from others, because in them it can be the image, a
// limit or the command that is at fault instead of the host.
const (
	StagePart     = partStage
	ClonePart     = partBorn
	DirectoryPart = partDirectory
	ExecutePart   = partExecute
)

func (f *Fault) Error() string { return f.Part + ": " + f.Err.Error() }

// Unwrap gives the failure, and by that its errno.
func (f *Fault) Unwrap() error { return f.Err }

// locate names the part of the script whose step failed, if one did.
func (s script) locate(err error) error {
	var failure *spawn.Failure
	if !errors.As(err, &failure) {
		return err
	}
	return &Fault{Part: s.plan.at(failure.Index), Err: err}
}
