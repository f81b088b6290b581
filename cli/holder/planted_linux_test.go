package holder_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/cli/holder"
	"aether/internal/host/storedir"
)

// plantedRole makes the test binary play a part in TestPlantedTemplate.
const plantedRole = "HOLDER_TEST_ROLE"

const victim, attacker = 12345, 54321

// plays are the parts.
var plays = map[string]func() error{
	// ask is a user who forks a template, wherever that is found.
	"ask": func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		dir := holder.In(storedir.Running())
		names, err := dir.Names()
		fmt.Println("names:", names, err)
		_, err = dir.Manifest("work")
		fmt.Println("manifest:", err)
		_, err = dir.Held("work")
		fmt.Println("held:", err)
		client, err := dir.Dial(ctx, "work")
		if err == nil {
			_, err = client.Info(ctx)
		}
		fmt.Println("dial:", err)
		fmt.Println("remove:", dir.Remove(ctx, "work"))
		return nil
	},
	// plant is another, who makes the first one's directory and listens there.
	"plant": func() error {
		dir := filepath.Join(os.Getenv("TMPDIR"), fmt.Sprint("aether-", victim), "run", "templates", "work")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte(`{"name":"work"}`), 0o644); err != nil {
			return err
		}
		socket := filepath.Join(dir, "socket")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			return err
		}
		if err := os.Chmod(socket, 0o666); err != nil {
			return err
		}
		fmt.Println("listening")
		for {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			go func() { _, _ = io.Copy(os.Stdout, conn) }()
		}
	},
}

func play(role string, uid uint32, program, dir string) *exec.Cmd {
	cmd := exec.Command(program)
	// Neither a home nor a directory of the session's: as in many services.
	cmd.Env, cmd.Dir = []string{plantedRole + "=" + role, "TMPDIR=" + dir}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// TestPlantedTemplate has another user make the state of one who has neither HOME nor
// XDG directories, below /tmp: nothing may be said to that user's socket.
func TestPlantedTemplate(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	dir, program := market(t)
	plant := play("plant", attacker, program, dir)
	out, err := plant.StdoutPipe()
	if err == nil {
		err = plant.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	heard := bufio.NewReader(out)
	if line, err := heard.ReadString('\n'); err != nil || line != "listening\n" {
		t.Fatalf("%q, %v", line, err)
	}
	said, err := play("ask", victim, program, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for line := range strings.Lines(string(said)) {
		if !strings.Contains(line, fmt.Sprint("belongs to user ", attacker)) {
			t.Errorf("it is not refused: %s", line)
		}
	}
	if err := plant.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(heard); len(text) > 0 {
		t.Errorf("the other user heard %q", text)
	}
	_ = plant.Wait() // it was killed
}

// market is a directory as /tmp is, with a copy of the test binary that all may run.
func market(t *testing.T) (dir, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "program")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, os.ModeSticky|0o777); err != nil {
		t.Fatal(err)
	}
	return dir, program
}
