package bubblewrap_test

import (
	"context"
	"os"
	"testing"
	"time"

	"aether/driver/command/commandtest"
	"aether/guest"
	"aether/sandbox"
)

func create(t *testing.T, spec sandbox.Spec) sandbox.Instance {
	t.Helper()
	needBwrap(t)
	return commandtest.Create(t, newDriver(t.TempDir()), spec)
}

func TestProbeSaysWhatIsMissing(t *testing.T) {
	needBwrap(t)
	commandtest.ProbeSaysWhatIsMissing(t, newDriver, "bwrap")
}

func TestServiceThatDoesNotAnswer(t *testing.T) {
	needBwrap(t)
	commandtest.ServiceThatDoesNotAnswer(t, newDriver)
}

func TestBoxCrashes(t *testing.T) {
	needBwrap(t)
	commandtest.Crash(t, newDriver(t.TempDir()))
}

func TestBoxInheritsNothing(t *testing.T) {
	needBwrap(t)
	commandtest.InheritsNothing(t, newDriver(t.TempDir()))
}

// TestBoxFillsItsMemoryWithFiles: those are not freed by killing a command. Either
// the service can still remove them or the sandbox ends and says why.
func TestBoxFillsItsMemoryWithFiles(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no cgroups to limit memory by")
	}
	instance := create(t, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 48 << 20}})
	client := guest.NewClient(instance.Dial, guest.ClientOptions{})
	defer client.Close()
	if p, err := client.Start(t.Context(), guest.Cmd{Path: "sh", Args: []string{"-c", "exec head -c 512M /dev/zero > /tmp/file"}}); err == nil {
		_, _ = p.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	removed := client.Remove(ctx, "/tmp/file")
	if removed == nil {
		if _, status := commandtest.Sh(t, instance, "true"); status.Code != 0 {
			t.Errorf("with its files gone it cannot run a command: %+v", status)
		}
		return
	}
	exit, err := instance.Wait(ctx)
	if err != nil || exit.Cause != sandbox.OutOfMemory {
		t.Errorf("%+v, %v (remove: %v)", exit, err, removed)
	}
}

func TestBoxCannotChangeItsService(t *testing.T) {
	instance := create(t, sandbox.Spec{})
	for _, script := range []string{"echo x > /dev/.aether-guest", "rm -f /dev/.aether-guest", "echo x > /dev/new", "kill -9 1; kill -TERM 1; sleep 0.1; false"} {
		if out, status := commandtest.Sh(t, instance, script); status.Code == 0 {
			t.Errorf("%s: %s", script, out)
		}
	}
	commandtest.Sh(t, instance, "true")
}

func TestBoxOnTheHostsNetwork(t *testing.T) {
	needBwrap(t)
	commandtest.HostNetwork(t, newDriver(t.TempDir()))
}
