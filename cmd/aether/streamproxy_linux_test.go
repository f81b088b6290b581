package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
)

// streamProxy hands messages that come over HTTP to programs that take them over their
// streams, as they are, and their answers back: it knows no more of the protocol than which
// message begins a session and which asks for an answer.
type streamProxy struct {
	*httptest.Server
	t        *testing.T
	programs atomic.Int64 // that were started

	mu       sync.Mutex
	sessions map[string]*streams // those of older revisions; the one without a name is for all others
}

// streams is a program that is spoken with, by one at a time.
type streams struct {
	mu  sync.Mutex
	in  io.WriteCloser
	out *bufio.Reader
}

const sessionHeader = "Mcp-Session-Id"

func newStreamProxy(t *testing.T) *streamProxy {
	p := &streamProxy{t: t, sessions: map[string]*streams{}}
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Server.Close)
	return p
}

// start starts a program, which ends with its input.
func (p *streamProxy) start() (*streams, error) {
	p.programs.Add(1)
	cmd := aether(p.t, "mcp", "--profile", "full")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.t.Cleanup(func() { in.Close(); p.end(cmd) })
	return &streams{in: in, out: bufio.NewReader(out)}, nil
}

func (p *streamProxy) end(cmd *exec.Cmd) {
	if err := cmd.Wait(); err != nil {
		p.t.Errorf("a program that was spoken with ends: %v", err)
	}
}

// session is the program that a message is for, which is started for the first.
func (p *streamProxy) session(name, method string) (_ *streams, now string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if method == "initialize" {
		name = fmt.Sprint("session-", len(p.sessions))
	}
	if p.sessions[name] == nil {
		if p.sessions[name], err = p.start(); err != nil {
			return nil, "", err
		}
	}
	return p.sessions[name], name, nil
}

func (p *streamProxy) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(r.Body)
	var message struct {
		ID     json.RawMessage
		Method string
	}
	if err == nil {
		err = json.Unmarshal(body, &message)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s, name, err := p.session(r.Header.Get(sessionHeader), message.Method)
	var answer []byte
	if err == nil {
		answer, err = s.ask(body, message.ID)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if name != "" {
		w.Header().Set(sessionHeader, name)
	}
	if answer == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that is gone is nobody's error
}

// ask says something on a line of its own, and waits for the answer if there is to be one.
func (s *streams) ask(body []byte, id json.RawMessage) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var line map[string]any
	if err := json.Unmarshal(body, &line); err != nil {
		return nil, err
	}
	text, err := json.Marshal(line) // which has no line breaks
	if err == nil {
		_, err = s.in.Write(append(text, '\n'))
	}
	if err != nil || id == nil {
		return nil, err
	}
	for {
		answer, err := s.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var of struct{ ID json.RawMessage }
		if err := json.Unmarshal(answer, &of); err != nil {
			return nil, err
		}
		if string(of.ID) == string(id) {
			return answer, nil
		}
	}
}
