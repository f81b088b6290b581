package upperdir

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

const (
	// MaxDepth bounds how deep directories are nested: each holds descriptors.
	MaxDepth = 200
	// MaxEntries bounds how many things one sandbox has written.
	MaxEntries = 4 << 20
)

// ErrChanged says that the sandbox was not as still as it must be.
var ErrChanged = &sandbox.Error{Class: sandbox.Conflict, Op: "upper: read", Retry: true,
	Reason: "files of the sandbox changed while they were being read"}

var (
	errTooDeep = &sandbox.Error{Class: sandbox.Exhausted, Op: "upper: walk",
		Reason: fmt.Sprintf("the sandbox has nested directories more than %d deep", MaxDepth), Remedy: "remove them first"}
	errTooMany = &sandbox.Error{Class: sandbox.Exhausted, Op: "upper: walk",
		Reason: fmt.Sprintf("the sandbox has written more than %d files", MaxEntries), Remedy: "remove some first"}
)

// fault names what failed and whose fault it is, unless that is known already.
func fault(op, path string, err error) error {
	var known *sandbox.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	failure := &sandbox.Error{Op: "upper: " + op, Err: err, Reason: fmt.Sprintf("%.200q", path)}
	switch err {
	case unix.ENOSPC, unix.EDQUOT:
		failure.Class, failure.Remedy = sandbox.Exhausted, "give the other sandbox more room for its files"
	case unix.ENOMEM, unix.EMFILE, unix.ENFILE:
		failure.Class, failure.Retry = sandbox.Exhausted, true
	}
	return failure
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
