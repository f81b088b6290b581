package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Reap kills and removes the groups of programs that ended without Close. It
// knows them by the lock files in runDir, never touches those whose lock is
// held, and says how many programs it cleaned up after.
func Reap(ctx context.Context, runDir string) (int, error) {
	entries, err := os.ReadDir(runDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cgroup: reap: %w", err)
	}
	var reaped int
	var failures error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), lockSuffix) {
			continue
		}
		switch err := reapOne(ctx, filepath.Join(runDir, e.Name())); {
		case err == nil:
			reaped++
		case !errors.Is(err, errHeld):
			failures = errors.Join(failures, fmt.Errorf("cgroup: reap: %w", err))
		}
	}
	return reaped, failures
}

func reapOne(ctx context.Context, name string) error {
	lock, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return errHeld
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := takeLock(lock); err != nil {
		return err
	}
	groups, err := recorded(lock)
	if err != nil {
		return err
	}
	if err := endAll(ctx, groups); err != nil {
		return err
	}
	return os.Remove(name)
}

// recorded are the groups of a lock's record that still exist.
func recorded(lock *os.File) ([]node, error) {
	dirs, err := readRecord(lock)
	if err != nil {
		return nil, err
	}
	var groups []node
	for _, dir := range dirs {
		switch is, err := isGroup(dir); {
		case errors.Is(err, unix.ENOENT):
		case err != nil:
			return nil, err
		case !is:
			return nil, fmt.Errorf("%s names %s, which is no control group", lock.Name(), dir)
		default:
			groups = append(groups, node{unix.AT_FDCWD, dir})
		}
	}
	return groups, nil
}

// endAll ends all groups that somebody is in, or that have others below them. It kills
// in every tree before it removes any: each may be the only one that holds some process
// of a program that was killed half way. Before that it lifts rates: who waits for a
// slow disk can neither be frozen nor end.
func endAll(ctx context.Context, groups []node) error {
	groups = removeEmpty(groups)
	for _, n := range groups {
		if err := n.liftAll(); err != nil {
			return fmt.Errorf("lift the rates of %s: %w", n.name, err)
		}
	}
	for _, n := range groups {
		if err := n.kill(ctx); err != nil {
			return fmt.Errorf("kill %s: %w", n.name, err)
		}
	}
	return removeAll(ctx, groups)
}
