package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"aether/engine"
	"aether/guest"
	"aether/internal/soak"
	"aether/sandbox"
)

// server is a python with threads, a pipe, a listening socket, an open file and data. It
// answers each connection with what all of these are.
const server = `
import hashlib, os, socket, sys, threading, time
data = os.urandom(int(sys.argv[1]) << 20)
ticks = 0
def tick():
    global ticks
    while True:
        ticks += 1
        time.sleep(0.005)
threading.Thread(target=tick, daemon=True).start()
there, back = os.pipe(), os.pipe()
def echo():
    while True:
        os.write(back[1], os.read(there[0], 100))
threading.Thread(target=echo, daemon=True).start()
log = open("/tmp/log", "w+")
listener = socket.create_server(("127.0.0.1", 7000))
while True:
    connection, _ = listener.accept()
    os.write(there[1], b"echo")
    word = os.read(back[0], 100).decode()
    log.write("line\n"); log.flush()
    connection.sendall(f"{hashlib.sha256(data).hexdigest()} {ticks} {word} {log.tell()}".encode())
    connection.close()
`

// askServer reads to the end, when the server has closed the connection: one that is still
// open within a sandbox cannot be kept.
const askServer = `python3 -c 'import socket; print(socket.create_connection(("127.0.0.1", 7000)).makefile().read())'`

// TestPythonGoesOn: over pauses and restarts of the engine, nothing of a python is lost.
func TestPythonGoesOn(t *testing.T) {
	need(t, "python3")
	h := newHouse(t, sandbox.Checkpoint)
	e := h.open()
	id := create(t, e, alice, engine.CreateRequest{Keep: true, AutoResume: true}).ID
	client, release, err := e.Guest(t.Context(), alice, id)
	if err != nil {
		t.Fatal(err)
	}
	running, err := client.Start(t.Context(), guest.Cmd{Path: "python3", Args: []string{"-c", server, fmt.Sprint(soak.Count(20, 200))}})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	release()
	var first, last said
	if !eventually(func() bool { first, err = h.ask(e, id); return err == nil }) {
		t.Fatal(err)
	}
	last = first
	for n := range soak.Count(4, 50) {
		if n%2 == 0 {
			if _, err := e.Pause(t.Context(), alice, id, ""); err != nil {
				t.Fatal(err)
			}
		} else {
			h.close(e)
			e = h.open()
		}
		now, err := h.ask(e, id)
		if err != nil {
			t.Fatalf("pause %d: %v", n+1, err)
		}
		if now.hash != first.hash || now.word != "echo" || now.ticks < last.ticks || now.offset != last.offset+5 {
			t.Fatalf("pause %d: %+v, and before: %+v", n+1, now, last)
		}
		last = now
	}
}

// said is what the server answers.
type said struct {
	hash, word    string
	ticks, offset int
}

func (h *house) ask(e *engine.Engine, id string) (s said, err error) {
	text, err := tryShell(h.t.Context(), e, alice, id, askServer)
	if err == nil {
		_, err = fmt.Sscan(strings.TrimSpace(text), &s.hash, &s.ticks, &s.word, &s.offset)
	}
	return s, err
}
