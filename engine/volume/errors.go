package volume

import (
	"errors"

	"aether/sandbox"
)

// unbounded says of a host that cannot bound disks what that means for volumes.
func unbounded(err error) error {
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return &sandbox.Error{Class: sandbox.Unsupported, Field: "bytes", Err: err, Reason: "a volume cannot be bounded here",
		Remedy: "run aether as root on a host with loop devices and e2fsprogs, or make a volume without a bound"}
}
