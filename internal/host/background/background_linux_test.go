package background_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"aether/internal/host/background"
)

// TestStartsInTheBackground: a program in the background is in a session of its own and holds nothing that
// this one was given.
func TestStartsInTheBackground(t *testing.T) {
	given, err := unix.Dup(int(os.Stderr.Fd())) // without close-on-exec, as a shell gives one
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(given)
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", "pwd; cut -d' ' -f6 /proc/$$/stat; echo $$; ls /proc/$$/fd")
	cmd.Stdout = &out
	if err := background.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(out.String())
	if len(got) != 6 || got[0] != "/" || got[1] != got[2] || strings.Join(got[3:], " ") != "0 1 2" {
		t.Errorf("%q", got)
	}
}
