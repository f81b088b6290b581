package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"aether/driver/guestagent"
	"aether/internal/bounded"
)

// settleTime is how long containerd may take to clean up after a request whose
// caller went away.
const settleTime = 6 * time.Second

// bury removes a container of a dead program. If that was killed while the
// container was being started, containerd gives up in the middle and forgets the
// shim, which would stay.
func (d *client) bury(ctx context.Context, c container) error {
	_, err := d.task(ctx, "Get", c.id)
	forgotten := gone(err)
	if forgotten {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleTime - time.Since(c.made)):
		}
	}
	if err := d.remove(ctx, c.id); err != nil || !forgotten {
		return err
	}
	return d.sweep(ctx, c.id)
}

// sweep ends the shims of a container that containerd does not know any more. Its
// id is random, so no other process has it among its arguments by chance.
func (d *client) sweep(ctx context.Context, id string) (err error) {
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline") // fails for a bad pattern only
	for _, file := range commands {
		text, failed := bounded.ReadFile(file, maxCommand)
		if failed != nil || !isShim(strings.Split(string(text), "\x00"), id) {
			continue // or it has ended
		}
		err = errors.Join(err, d.end(ctx, filepath.Dir(file), id))
	}
	return err
}

// maxCommand bounds the arguments of a process, which it may have made anything of:
// no shim has more.
const maxCommand = 64 << 10

func isShim(args []string, id string) bool {
	at := slices.Index(args, "-id")
	return strings.HasPrefix(filepath.Base(args[0]), "containerd-shim-") && at > 0 && at+1 < len(args) && args[at+1] == id
}

// end kills a shim and has another of its kind remove what it ran.
func (d *client) end(ctx context.Context, proc, id string) error {
	pid, err := strconv.Atoi(filepath.Base(proc))
	if err != nil {
		return err
	}
	program, err1 := os.Readlink(filepath.Join(proc, "exe"))
	bundle, err2 := os.Readlink(filepath.Join(proc, "cwd"))
	process, err3 := os.FindProcess(pid)
	if err := errors.Join(err1, err2, err3); err != nil {
		return ifThere(err)
	}
	if err := process.Kill(); err != nil {
		return ifThere(err)
	}
	if _, err := os.Stat(bundle); err != nil {
		return nil // containerd has removed it
	}
	cmd := exec.CommandContext(ctx, program, "-namespace", namespace, "-id", id, "-address", d.socket, "-bundle", bundle, "delete")
	cmd.Dir = bundle
	said := &guestagent.Said{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %.400s", cmd, err, said)
	}
	// First what may be a mount, which cannot be removed with all that it shows.
	if err := os.Remove(filepath.Join(bundle, "rootfs")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(bundle)
}

// ifThere forgives the failures of looking at a process that has ended.
func ifThere(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
