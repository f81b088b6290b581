package guestinit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// freezeTime bounds how long processes may take to stand still.
const freezeTime = 30 * time.Second

// Freeze stops every process of a group of the unified hierarchy, and those of the groups
// below it; thaw lets them go on. Processes with the rights of root can leave the group:
// then what they do is their own loss.
func Freeze(ctx context.Context, group string) (thaw func() error, err error) {
	if group == "" {
		return nil, errors.New("machine: this kernel cannot stop processes: it has no cgroups of version 2")
	}
	set := func(text string) error { return os.WriteFile(filepath.Join(group, "cgroup.freeze"), []byte(text), 0) }
	thaw = func() error { return set("0") }
	if err := set("1"); err != nil {
		return nil, err
	}
	if err := awaitFrozen(ctx, group); err != nil {
		return nil, errors.Join(err, thaw())
	}
	return thaw, nil
}

func awaitFrozen(ctx context.Context, group string) error {
	ctx, cancel := context.WithTimeout(ctx, freezeTime)
	defer cancel()
	for {
		text, err := os.ReadFile(filepath.Join(group, "cgroup.events"))
		if err != nil || strings.Contains(string(text), "frozen 1") {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}
