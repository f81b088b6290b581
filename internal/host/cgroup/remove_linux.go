package cgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"aether/sandbox"
)

// remove deletes the group and those below it. Killed processes leave a little
// later than the kill returns, so a busy group is waited for.
func (n node) remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for wait := time.Duration(0); ; wait = min(max(2*wait, firstPause), lastPause) {
		err := n.rmdir()
		if !errors.Is(err, unix.EBUSY) {
			return absent(err)
		}
		if err := n.removeBelow(ctx); err != nil {
			return err
		}
		if err := n.vacate(ctx, wait); err != nil {
			return n.stillBusy(err)
		}
	}
}

// vacate waits until the group is empty. Version 2 tells when; version 1 does
// not, and is tried again after a pause.
func (n node) vacate(ctx context.Context, wait time.Duration) error {
	if err := absent(n.await(ctx, "populated", 0)); err != nil {
		return err
	}
	return pause(ctx, wait)
}

func (n node) removeBelow(ctx context.Context) error {
	below, err := n.children()
	if err != nil {
		return absent(err)
	}
	for _, child := range below {
		if err := child.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (n node) stillBusy(err error) error {
	return &sandbox.Error{Class: sandbox.Timeout, Op: "cgroup: remove", Retry: true, Err: err,
		Reason: fmt.Sprintf("processes are still in the group %s", n.name), Remedy: "kill them first"}
}

// removeEmpty removes the groups that are empty, and gives the others: to look for
// processes, rates and groups below takes ten times as long.
func removeEmpty(groups []node) (left []node) {
	for _, n := range slices.Backward(groups) {
		if n.name != "" && absent(n.rmdir()) != nil {
			left = append(left, n)
		}
	}
	slices.Reverse(left)
	return left
}

// removeAll goes from the last tree to the first: version 2 is last, and it is
// the one that can be waited for without trying.
func removeAll(ctx context.Context, groups []node) error {
	for _, n := range slices.Backward(groups) {
		if n.name == "" {
			continue
		}
		if err := n.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}
