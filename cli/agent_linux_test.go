package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	cells "aether/driver/cell"
	"aether/image"
	"aether/internal/host/pty"
	"aether/sandbox"
)

// TestAgentSpeaksOnTerminal: who looks on sees what the model says as it comes, and the answer
// once.
func TestAgentSpeaksOnTerminal(t *testing.T) {
	dir, err := os.MkdirTemp("", "aether-cli-") // through which all may pass
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	check(t, os.Chmod(dir, 0o711))
	t.Setenv("AETHER_STATE_DIR", filepath.Join(dir, "state"))
	t.Setenv(urlVariable, "")
	file := filepath.Join(dir, "script.json")
	const turns = `{"main": [{"text": "I look \u001b[2J around.", "calls": [{"name": "file_list", "arguments": {"sandbox": "here", "path": "/tmp"}}]}, {"text": "It is empty."}]}`
	check(t, os.WriteFile(file, []byte(turns), 0o600))
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this host has no terminals: %v", err)
	}
	defer master.Close()
	slave, err := pty.Open(master)
	check(t, err)
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // ends with an error when the other end is closed
		read <- string(text)
	}()
	maker := sandbox.Maker{Name: cells.Name, New: func() sandbox.Driver {
		return cells.New(cells.Options{RunDir: filepath.Join(dir, "run"), Images: func() (*image.Store, error) { return image.Open(filepath.Join(dir, "images")) }})
	}}
	status := Main(t.Context(), []string{"agent", "run", "--script", file, "Look around."}, strings.NewReader(""), slave, slave, []sandbox.Maker{maker})
	check(t, slave.Close())
	_, shown, _ := strings.Cut(strings.ReplaceAll(<-read, "\r\n", "\n"), "\n") // after the name of the run
	want := regexp.MustCompile(`^main: I look \\x1b\[2J around\.\naether: main  step 1  file_list in .*\nmain: It is empty\.\n$`)
	if status != 0 || !want.MatchString(shown) {
		t.Errorf("status %d, shown is %q", status, shown)
	}
}
