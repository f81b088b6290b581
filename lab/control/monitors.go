package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// firecracker asks a monitor without a machine.
func firecracker(ctx context.Context) (findings, error) {
	return monitor(ctx, func(socket string) []string { return []string{"firecracker", "--api-sock", socket} }, api{
		calls: map[string]call{Exec: {"PUT", "/exec", `{}`}, Files: {"PUT", "/files", `{}`}, Snapshot: {"PUT", "/snapshot/create", `{}`}, Fork: {"PUT", "/fork", `{}`},
			Policy: {"PUT", "/machine-config", `{}`}, Schema: {"PUT", "/schema", `{}`}, Tools: {"PUT", "/tools", `{}`}, Events: {"PUT", "/events", `{}`}},
		none: call{"PUT", "/no-such-verb", `{}`}, failure: call{"PUT", "/boot-source", `{}`}})
}

// cloudHypervisor is as firecracker, with verbs after a version.
func cloudHypervisor(ctx context.Context) (findings, error) {
	const vm = "/api/v1/vm."
	found, err := monitor(ctx, func(socket string) []string { return []string{"cloud-hypervisor", "--api-socket", "path=" + socket} }, api{
		calls: map[string]call{Exec: {"PUT", vm + "exec", `{}`}, Files: {"PUT", vm + "files", `{}`}, Snapshot: {"PUT", vm + "snapshot", `{}`}, Fork: {"PUT", vm + "fork", `{}`},
			Policy: {"PUT", vm + "resize", `{}`}, Schema: {"PUT", vm + "schema", `{}`}, Tools: {"PUT", vm + "tools", `{}`}},
		none: call{"PUT", vm + "no-such-verb", `{}`}, failure: call{"GET", vm + "info", ""}})
	if err != nil {
		return nil, err
	}
	// Events are written to a file that an option names.
	by := program{name: "cloud-hypervisor", helps: [][]string{{"--help"}}, verbs: verbs{Events: `--event-monitor`}, fail: []string{"--no-such-option"}}
	help, err := by.find(ctx)
	found[Events] = help[Events]
	return found, err
}

// monitor starts one, asks it when its socket is there, and ends it.
func monitor(ctx context.Context, command func(socket string) []string, a api) (_ findings, err error) {
	dir, err := os.MkdirTemp("", "lab-api-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	a.socket = filepath.Join(dir, "socket")
	args := command(a.socket)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// How it ends, when it is killed, says nothing.
	defer func() { cancel(); <-ended }()
	for {
		if _, err := os.Stat(a.socket); err == nil {
			return a.find(ctx)
		}
		select {
		case err := <-ended:
			ended <- err
			return nil, fmt.Errorf("%s: %w: %w", args[0], errNoSocket, err)
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w: %w", args[0], errNoSocket, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
