package cgroup

import (
	"bytes"
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// freeze stops every process in and below the group, and returns when all have.
func (n node) freeze(ctx context.Context) error {
	err := n.write("cgroup.freeze", one)
	if err == nil {
		return n.await(ctx, "frozen", 1)
	}
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := n.write("freezer.state", frozen); err != nil {
		return err
	}
	return n.awaitFreezer(ctx)
}

// thaw lets them go on. A group that offers no freezer has nothing to thaw.
func (n node) thaw() error {
	err := n.write("cgroup.freeze", zero)
	if errors.Is(err, unix.ENOENT) {
		err = absent(n.write("freezer.state", thawed))
	}
	return err
}

const (
	firstPause = 100 * time.Microsecond
	lastPause  = 20 * time.Millisecond
	// settleTime bounds every wait for the kernel to finish with a group.
	settleTime = 10 * time.Second
	pollSlice  = 50 // milliseconds between looks at the context
)

// awaitFreezer reads the state until it is final: version 1 tells nobody.
func (n node) awaitFreezer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for wait := firstPause; ; wait = min(2*wait, lastPause) {
		state, err := n.read("freezer.state")
		if err != nil || bytes.HasPrefix(state, frozen) {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// await blocks until the key of cgroup.events has the value; the kernel tells
// of changes through poll.
func (n node) await(ctx context.Context, key string, value int64) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	fd, err := n.open("cgroup.events", unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for {
		text, err := readAt(fd)
		if err != nil {
			return err
		}
		if got, _ := counter(text, key); got == value {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
		if _, err := unix.Poll(polled, pollSlice); err != nil && err != unix.EINTR {
			return err
		}
	}
}
