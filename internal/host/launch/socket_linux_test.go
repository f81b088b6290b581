package launch

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestFilesAreHandedOver sends a file from one end of a pair to the other.
func TestFilesAreHandedOver(t *testing.T) {
	ours, file, err := SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	file.Close()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	sent, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer sent.Close()
	if _, _, err := ours.WriteMsgUnix([]byte("text"), Rights(sent), nil); err != nil {
		t.Fatal(err)
	}
	text, rights := make([]byte, 16), make([]byte, 64)
	n, m, _, _, err := theirs.(*net.UnixConn).ReadMsgUnix(text, rights)
	if err != nil || string(text[:n]) != "text" {
		t.Fatalf("%q, %v", text[:n], err)
	}
	got, err := Received(rights[:m])
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if content, err := io.ReadAll(got); err != nil || string(content) != "content" {
		t.Errorf("%q, %v", content, err)
	}
	for name, message := range map[string][]byte{"none": nil, "garbage": []byte("0123456789abcdef")} {
		if f, err := Received(message); err == nil {
			t.Errorf("%s gave %v", name, f)
		}
	}
}
