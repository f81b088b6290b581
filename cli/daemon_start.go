package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"aether/internal/host/background"
	"aether/internal/host/storedir"
	"aether/rest"
	"aether/sandbox"
)

// idleExit is how long a daemon that a command has started stays when nothing is left in
// it. Tests have less time.
var idleExit = 10 * time.Second

const (
	// startTime is how long it may take until it listens.
	startTime = 30 * time.Second
	// maxDaemonLog is where the log of such daemons begins anew.
	maxDaemonLog = 1 << 20
	// shownLog is how much of it is told of one that could not begin.
	shownLog = 2 << 10
)

// daemonLogFile is what the daemons say that commands have started.
func daemonLogFile() string { return filepath.Join(filepath.Dir(daemonSocket()), "log") }

// ensureDaemon sees that this user's daemon answers the client, by starting it unless it
// runs. The connection stays open, and while there is one the daemon does not end for
// having nothing to do. Of several that come at once, one starts it and the others find
// it running.
func ensureDaemon(ctx context.Context, client *rest.Client) error {
	if daemonAnswers(ctx, client) == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	dir := filepath.Dir(daemonSocket())
	if err := storedir.Prepare(dir); err != nil {
		return err
	}
	lock, err := storedir.Acquire(ctx, filepath.Join(dir, "start.lock"))
	if err != nil {
		return err
	}
	answer := daemonAnswers(ctx, client)
	// On a busy host one may end for having nothing to do before it is asked for anything.
	for tries := 3; answer != nil && tries > 0; tries-- {
		if err := startDaemon(ctx, dir); err != nil {
			return errors.Join(err, lock.Release())
		}
		answer = client.Ready(ctx)
	}
	return errors.Join(answer, lock.Release())
}

// daemonAnswers says why no daemon will do what the client asks for: none runs, or one
// that is about to end.
func daemonAnswers(ctx context.Context, client *rest.Client) error {
	if _, err := os.Lstat(daemonSocket()); err != nil {
		return err
	}
	return client.Ready(ctx)
}

// startDaemon runs this program again in the background, as a daemon, and waits until it
// listens, which it tells as it tells a service manager. dir is for the socket of that.
func startDaemon(ctx context.Context, dir string) error {
	heard, err := listenReady(filepath.Join(dir, "ready"))
	if err != nil {
		return err
	}
	defer os.Remove(heard.LocalAddr().String())
	defer heard.Close()
	log, err := openDaemonLog()
	if err != nil {
		return err
	}
	defer log.Close()
	child, err := daemonProcess(log, heard.LocalAddr().String())
	if err != nil {
		return err
	}
	if err := background.Start(child); err != nil {
		return err
	}
	ready, ended := make(chan error, 1), make(chan error, 1)
	go func() { ready <- awaitReady(heard) }()
	go func() { ended <- child.Wait() }()
	select {
	case err := <-ready:
		return err
	case <-ended:
		return startFailure(log)
	case <-ctx.Done():
		_ = child.Process.Kill() // unless it has ended
		return &sandbox.Error{Class: sandbox.Timeout, Op: "start a daemon", Reason: "it is not ready in time", Remedy: "see " + log.Name()}
	}
}

// daemonProcess is a daemon that ends when nothing is left in it.
func daemonProcess(log *os.File, ready string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	child := exec.Command(self, "serve", "--idle-exit", idleExit.String())
	child.Stderr = log
	child.Env = append(os.Environ(), notifyVariable+"="+ready)
	return child, nil
}

// listenReady makes the socket to which the daemon will say that it listens. What a command
// that was killed has left of it is removed.
func listenReady(path string) (*net.UnixConn, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	heard, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, heard.Close())
	}
	return heard, nil
}

func awaitReady(heard *net.UnixConn) error {
	text := make([]byte, 64)
	for {
		n, err := heard.Read(text)
		if err != nil || strings.Contains(string(text[:n]), "READY=1") {
			return err
		}
	}
}

// openDaemonLog opens the log to be appended to. No daemon writes to it meanwhile, so
// one that is long begins anew.
func openDaemonLog() (*os.File, error) {
	log, err := os.OpenFile(daemonLogFile(), os.O_RDWR|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	size, err := log.Seek(0, io.SeekEnd)
	if err == nil && size > maxDaemonLog {
		err = log.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return log, nil
}

// startFailure says why a daemon ended before it listened, by its last line.
func startFailure(log *os.File) error {
	e := &sandbox.Error{Class: sandbox.Unavailable, Op: "start a daemon", Reason: "it ended before it listened", Remedy: "see " + log.Name()}
	size, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return errors.Join(e, err)
	}
	text, err := io.ReadAll(io.NewSectionReader(log, max(0, size-shownLog), shownLog))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if last := strings.TrimPrefix(lines[len(lines)-1], "aether: "); err == nil && last != "" {
		e.Err = fmt.Errorf("%s", last)
	}
	return e
}
