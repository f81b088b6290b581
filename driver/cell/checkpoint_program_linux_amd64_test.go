package cell_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/driver/cell"
	"aether/guest"
	"aether/image"
	"aether/sandbox"
)

const (
	takeRole     = "take"
	giveRole     = "give"
	keptVariable = "AETHER_CELL_TEST_KEPT"
	// roleTime ends a program whose test cannot.
	roleTime = time.Minute
)

func init() { roles[takeRole], roles[giveRole] = takeAndEnd, giveInput }

// halfway computes something in two halves and waits for a number in between.
const halfway = `
import sys
primes = [n for n in range(2, 20000) if all(n % d for d in range(2, int(n ** .5) + 1))]
print("half", flush=True)
last = int(sys.stdin.readline())
print(sum(primes) + sum(n for n in range(20000, last) if all(n % d for d in primes if d * d <= n)), flush=True)
`

func roleDriver() *cell.Driver {
	dir := os.Getenv(keptVariable)
	return cell.New(cell.Options{RunDir: filepath.Join(dir, "run"),
		Images: func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }})
}

// takeAndEnd begins the computation and keeps it, and says its number.
func takeAndEnd() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience(roleTime))
	defer cancel()
	driver := roleDriver()
	defer driver.Close(ctx)
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	half := make(halfHeard)
	in, _ := io.Pipe() // nothing is said yet
	running, err := guest.NewClient(instance.Dial, guest.ClientOptions{}).Start(ctx, guest.Cmd{Path: "python3", Args: []string{"-c", halfway},
		Stdin: in, Stdout: half})
	if err != nil {
		return err
	}
	go running.Wait() // carries the output
	select {
	case <-half:
	case <-ctx.Done():
		return ctx.Err()
	}
	fmt.Println(running.Pid())
	return instance.(sandbox.Snapshotter).Snapshot(ctx, filepath.Join(os.Getenv(keptVariable), "kept"), sandbox.Checkpoint)
}

type halfHeard chan struct{}

func (h halfHeard) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "half") {
		close(h)
	}
	return len(p), nil
}

// giveInput restores the computation twice at once and has each end with another
// number.
func giveInput() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience(roleTime))
	defer cancel()
	driver := roleDriver()
	defer driver.Close(ctx)
	var clients []*guest.Client
	for range 2 {
		instance, err := driver.Restore(ctx, filepath.Join(os.Getenv(keptVariable), "kept"), sandbox.Checkpoint, sandbox.Spec{})
		if err != nil {
			return err
		}
		clients = append(clients, guest.NewClient(instance.Dial, guest.ClientOptions{}))
	}
	for i, c := range clients {
		list, err := c.Processes(ctx)
		if err != nil || len(list) != 1 {
			return fmt.Errorf("processes: %v, %v", list, err)
		}
		running, err := c.Connect(ctx, int(list[0].Pid), guest.Cmd{Stdin: strings.NewReader([]string{"30000\n", "40000\n"}[i]), Stdout: os.Stdout, Stderr: os.Stderr})
		if err != nil {
			return err
		}
		if end, err := running.Wait(); err != nil || end.Code != 0 {
			return fmt.Errorf("it ended with %+v, %v", end, err)
		}
	}
	return nil
}

// TestCheckpointOutlivesItsProgram: what one program kept, another goes on with.
func TestCheckpointOutlivesItsProgram(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	play := func(role string) string {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
		cmd.Env = append(os.Environ(), roleVariable+"="+role, keptVariable+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", role, err)
		}
		return string(out)
	}
	play(takeRole)
	if got := play(giveRole); got != "45675864\n79170666\n" { // the sums of primes
		t.Errorf("the restored processes said %q", got)
	}
}
