package qmp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/internal/host/launch"
)

// pair connects two ends as QEMU and its driver are.
func pair(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	ours, file, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	t.Cleanup(func() { ours.Close(); conn.Close() })
	return ours, conn.(*net.UnixConn)
}

const greeting = `{"QMP": {"version": {}, "capabilities": []}}` + "\n"

// answering plays a QEMU that answers each line.
func answering(conn net.Conn, answer func(line string, n int) string) {
	io.WriteString(conn, greeting)
	for n, scan := 1, bufio.NewScanner(conn); scan.Scan(); n++ {
		io.WriteString(conn, answer(scan.Text(), n))
	}
}

func dial(t *testing.T, answer func(line string, n int) string) *Client {
	t.Helper()
	ours, theirs := pair(t)
	go answering(theirs, answer)
	c, err := New(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func returned(n int, value string) string {
	return fmt.Sprintf("{\"return\": %s, \"id\": %d}\n", value, n)
}

func TestCall(t *testing.T) {
	c := dial(t, func(line string, n int) string {
		switch {
		case strings.Contains(line, `"broken"`):
			return fmt.Sprintf("{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}, \"id\": %d}\n", n)
		case strings.Contains(line, `"late"`):
			return "" // its answer comes with the next
		}
		return "{\"event\": \"STOP\", \"data\": {}}\n" + returned(n-1, `{"status": "old"}`) + returned(n, `{"status": "running"}`)
	})
	var status struct{ Status string }
	if err := c.Call(t.Context(), "query-status", nil, &status); err != nil || status.Status != "running" {
		t.Errorf("%q, %v", status.Status, err)
	}
	var failure *Error
	if err := c.Call(t.Context(), "broken", nil, nil); !errors.As(err, &failure) || failure.Desc != "no" {
		t.Errorf("a refusal is %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, "late", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a late answer is %v", err)
	}
	if err := c.Call(t.Context(), "query-status", nil, &status); err != nil || status.Status != "running" {
		t.Errorf("after a late answer: %q, %v", status.Status, err)
	}
}

func TestFilesAreHandedOver(t *testing.T) {
	ours, theirs := pair(t)
	got := make(chan string, 1)
	go func() {
		io.WriteString(theirs, greeting)
		b, rights := make([]byte, 4096), make([]byte, 64)
		theirs.Read(b)
		io.WriteString(theirs, returned(1, "{}"))
		_, n, _, _, _ := theirs.ReadMsgUnix(b, rights)
		io.WriteString(theirs, returned(2, "{}"))
		handed, err := launch.Received(rights[:n])
		if err != nil {
			got <- err.Error()
			return
		}
		text, _ := io.ReadAll(handed)
		got <- string(text)
	}()
	c, err := New(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := filepath.Join(t.TempDir(), "file")
	os.WriteFile(name, []byte("content"), 0o600)
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := c.CallFile(t.Context(), file, "getfd", map[string]any{"fdname": "x"}, nil); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "content" {
		t.Errorf("the other end reads %q", text)
	}
}

// A QEMU that a guest has taken over may say anything: it is an error, and bounded.
func TestHostileAnswers(t *testing.T) {
	for name, text := range map[string]string{
		"no greeting": returned(1, "{}"),
		"no JSON":     "garbage\n",
		"too long":    `{"QMP": "` + strings.Repeat("x", maxLine) + "\"}\n",
		"no end":      strings.Repeat("[", maxLine+1),
		"nothing":     "",
	} {
		ours, theirs := pair(t)
		go func() {
			io.WriteString(theirs, text)
			theirs.Close()
		}()
		if c, err := New(t.Context(), ours); err == nil {
			t.Errorf("%s is taken for QEMU", name)
			c.Close()
		}
	}
}

func TestCloseEndsCalls(t *testing.T) {
	c := dial(t, func(line string, n int) string {
		if strings.Contains(line, "qmp_capabilities") {
			return returned(n, "{}")
		}
		return ""
	})
	ended := make(chan error, 1)
	go func() { ended <- c.Call(context.Background(), "query-status", nil, nil) }()
	time.Sleep(20 * time.Millisecond)
	c.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a call without an answer succeeds")
		}
	case <-time.After(time.Minute):
		t.Error("a call outlives its connection")
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add([]byte(greeting + returned(1, "{}")))
	f.Add([]byte(greeting + "{\"event\": \"STOP\"}\n{\"error\": null, \"id\": 1}\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := pair(t)
		go func() {
			theirs.Write(said)
			theirs.Close()
		}()
		if c, err := New(t.Context(), ours); err == nil {
			c.Close()
		}
	})
}
