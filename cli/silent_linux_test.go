package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"aether/driver/all"
	"aether/engine"
	"aether/interpreter"

	pb "aether/guest/wire/process"
)

// mainVariable makes the test binary the program itself, so that it can be signalled. Its
// value may be how long a daemon stays that this program starts.
const mainVariable = "AETHER_CLI_TEST_MAIN"

func TestMain(m *testing.M) {
	if value := os.Getenv(mainVariable); value != "" {
		if d, err := time.ParseDuration(value); err == nil {
			idleExit = d
		}
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, all.Makers()))
	}
	completionTime = waitTime
	os.Exit(m.Run())
}

// Stages of the talk of run with the daemon that holds a template, at each of which this
// one falls silent.
const (
	silentAtOnce = iota
	silentAtTemplate
	silentAtHeaders
	silentAtFork
	silentInFork
	silentGuest
	silentProcess
	silentAtSignal
	silentAtEnd
	stages
)

// silentDaemon is one that says what is right until a stage, and then nothing.
type silentDaemon struct {
	stage int
	code  bool
	stuck chan string // told where it fell silent
}

func (h *silentDaemon) silent(at int, r *http.Request) bool {
	if h.stage != at {
		return false
	}
	select {
	case h.stuck <- r.Method + " " + r.URL.Path:
	default:
	}
	return true
}

func (h *silentDaemon) serve(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if r.ContentLength > 0 {
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength)
		}
		if h.silent(silentAtOnce, r) || !h.answer(conn, r) {
			_, _ = io.Copy(io.Discard, reader) // until the other end goes
			return
		}
	}
}

// answer answers one request, or nothing.
func (h *silentDaemon) answer(conn net.Conn, r *http.Request) bool {
	switch path := r.URL.Path; {
	case path == "/v1/templates/work":
		if h.silent(silentAtTemplate, r) {
			return false
		}
		if h.silent(silentAtHeaders, r) {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{")
			return false
		}
		return answerJSON(conn, engine.TemplateInfo{ID: "root", Name: "work", Driver: "cell", Resident: h.resident()}, "")
	case path == "/v1/attached":
		if h.silent(silentAtFork, r) {
			return false
		}
		text, _ := json.Marshal(engine.Sandbox{ID: "child", Resident: h.resident()})
		if h.silent(silentInFork, r) {
			text = text[:3]
		}
		fmt.Fprintf(conn, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(text), text)
		return false // and stays open
	case strings.Contains(path, "/process.Process/"):
		return h.guest(conn, r)
	case r.Method == http.MethodDelete && h.silent(silentAtEnd, r):
		return false
	}
	fmt.Fprint(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	return true
}

// guest answers as the guest service of the child.
func (h *silentDaemon) guest(conn net.Conn, r *http.Request) bool {
	if h.silent(silentGuest, r) {
		return false
	}
	switch filepath.Base(r.URL.Path) {
	case "Start", "Connect":
		event := &pb.ProcessEvent{Event: &pb.ProcessEvent_Start{Start: &pb.ProcessEvent_StartEvent{Pid: 7}}}
		message, _ := proto.Marshal(&pb.StartResponse{Event: event})
		frames := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
		if h.stage == silentAtEnd {
			end, _ := proto.Marshal(&pb.StartResponse{Event: &pb.ProcessEvent{Event: &pb.ProcessEvent_End{End: &pb.ProcessEvent_EndEvent{Exited: true}}}})
			frames = append(append(binary.BigEndian.AppendUint32(append(frames, 0), uint32(len(end))), end...), "\x02\x00\x00\x00\x02{}"...)
		}
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/connect+proto\r\n\r\n%s", frames)
		h.silent(silentProcess, r)
		return h.stage == silentAtEnd && conn.Close() != nil
	default:
		h.silent(silentAtSignal, r)
		return false
	}
}

// resident is what the template has left running.
func (h *silentDaemon) resident() *engine.Resident {
	left := &engine.Resident{PID: 7}
	if h.code {
		left.Interpreter = &interpreter.Handle{Language: interpreter.Python, PID: 7, Key: strings.Repeat("a", 32)}
	}
	return left
}

func answerJSON(w io.Writer, v any, head string) bool {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", head, len(text), text)
	}
	return err == nil
}

func (h *silentDaemon) listen(t *testing.T, state string) {
	t.Helper()
	dir := filepath.Join(state, "run", "daemon")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go h.serve(conn)
		}
	}()
}

// endTime is how long run may take to end after it is told to, whoever is silent.
const endTime = 3 * time.Minute

// TestSilentDaemon sends run a SIGTERM while it waits for a daemon, or for the guest
// service behind it, that has fallen silent: it must end, at every stage of the talk.
func TestSilentDaemon(t *testing.T) {
	for stage := range stages {
		for name, args := range map[string][]string{"command": {"--", "true"}, "resident": nil, "code": {"-c", "1"}} {
			if stage >= silentProcess && name != "command" {
				continue // where all wait for the same, and long
			}
			t.Run(fmt.Sprint(stage, name), func(t *testing.T) {
				t.Parallel()
				state, err := os.MkdirTemp("", "s")
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { os.RemoveAll(state) })
				h := &silentDaemon{stage: stage, code: name == "code", stuck: make(chan string, 1)}
				h.listen(t, state)
				h.endsAfterSignal(t, state, append([]string{"run", "--template", "work"}, args...))
			})
		}
	}
}

func (h *silentDaemon) endsAfterSignal(t *testing.T, state string, args []string) {
	var out bytes.Buffer
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1", "AETHER_STATE_DIR="+state)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if h.stage == silentAtSignal { // which only comes with the signal
		time.Sleep(2 * time.Second)
		select {
		case h.stuck <- "a process":
		default:
		}
	}
	select {
	case <-h.stuck:
	case err := <-ended:
		t.Fatalf("it ended before: %v: %s", err, &out)
	case <-time.After(endTime):
		t.Fatalf("it asks for nothing: %s", &out)
	}
	time.Sleep(100 * time.Millisecond)
	begun := time.Now()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Logf("%v after %v: %s", err, time.Since(begun).Round(time.Millisecond), &out)
	case <-time.After(endTime):
		_ = cmd.Process.Kill()
		t.Errorf("it goes on: %s", &out)
	}
}
