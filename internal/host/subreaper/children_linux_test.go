package subreaper

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes the test binary adopt its children, which the tests' own
// process must not: it waits for some itself.
const roleVariable = "ORPHANS_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "" {
		os.Exit(m.Run())
	}
	if err := adopt(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func TestAdopt(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func adopt() error {
	children, err := Adopt()
	if err != nil {
		return err
	}
	defer children.Close()
	return errors.Join(statuses(children), signals(children), strays(children), failing(children))
}

func run(children *Children, script string) (*Child, error) {
	return children.Start(func() (int, error) {
		return syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	})
}

// statuses: every child gets its own, also when many end before they are known.
func statuses(children *Children) error {
	failures := make(chan error, 100)
	var work sync.WaitGroup
	for n := range cap(failures) {
		work.Go(func() {
			child, err := run(children, fmt.Sprintf("exit %d", n))
			if err != nil {
				failures <- err
			} else if status := child.Wait(); status.ExitStatus() != n {
				failures <- fmt.Errorf("child %d ended with %d", n, status.ExitStatus())
			}
		})
	}
	work.Wait()
	close(failures)
	return <-failures
}

func signals(children *Children) error {
	child, err := run(children, "exec sleep 1000")
	if err != nil {
		return err
	}
	if err := child.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if status := child.Wait(); status.Signal() != syscall.SIGTERM {
		return fmt.Errorf("it ended with %v", status)
	}
	if err := child.Signal(syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("a signal to one that has ended: %v", err)
	}
	return nil
}

// strays: the children of children are reaped too.
func strays(children *Children) error {
	child, err := run(children, "for i in 1 2 3 4 5; do (sleep 0.05 &) ; done")
	if err != nil {
		return err
	}
	child.Wait()
	var left string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		if left = strings.TrimSpace(string(text)); err != nil || left == "" {
			return nil // this kernel does not say, or there are none
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s are left", left)
}

func failing(children *Children) error {
	broken := errors.New("broken")
	if _, err := children.Start(func() (int, error) { return 0, broken }); !errors.Is(err, broken) {
		return fmt.Errorf("a failing start: %v", err)
	}
	return nil
}
