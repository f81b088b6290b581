package script

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// maxRequest bounds what the server reads.
const maxRequest = 32 << 20

// Server answers requests to any provider.
type Server struct {
	// URL is where it is reached.
	URL string

	script Script
	key    string
	server *http.Server
	mu     sync.Mutex
	asked  map[string]int
	total  int
}

// Serve says what a script says to whoever has the key, on the loopback, until it is closed.
func Serve(s Script, key string) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	served := &Server{URL: "http://" + listener.Addr().String(), script: s, key: key, asked: map[string]int{}}
	mux := http.NewServeMux()
	for _, w := range wires {
		mux.HandleFunc(w.pattern, func(rw http.ResponseWriter, r *http.Request) { served.answer(w, rw, r) })
	}
	served.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = served.server.Serve(listener) }() // which ends by Close
	return served, nil
}

// Base is the address that replaces a provider's own.
func (s *Server) Base(provider string) string {
	if strings.HasPrefix(provider, "openai") {
		return s.URL + "/v1"
	}
	return s.URL
}

// Asked is how many requests there were.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Close ends it.
func (s *Server) Close() error { return s.server.Close() }

func (s *Server) answer(w wire, rw http.ResponseWriter, r *http.Request) {
	status, body, err := s.say(w, r)
	if err != nil {
		body = w.refuse(status, err.Error())
	}
	if events, ok := body.([]any); ok && status == http.StatusOK {
		rw.Header().Set("Content-Type", "text/event-stream")
		send(rw, events)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests || status >= 500 {
		rw.Header().Set("Retry-After", "0")
	}
	rw.WriteHeader(status)
	_ = json.NewEncoder(rw).Encode(body) // whoever asked is gone, if it fails
}

// say gives the answer to a request, or why there is none.
func (s *Server) say(w wire, r *http.Request) (int, any, error) {
	s.mu.Lock()
	s.total++
	s.mu.Unlock()
	if subtle.ConstantTimeCompare([]byte(w.key(r.Header)), []byte(s.key)) == 0 {
		return http.StatusUnauthorized, nil, fmt.Errorf("the key is wrong: %s", w.key(r.Header))
	}
	call := r.PathValue("call")
	streamed := strings.HasSuffix(call, ":streamGenerateContent") && r.URL.Query().Get("alt") == "sse"
	if call != "" && !streamed && !strings.HasSuffix(call, ":generateContent") {
		return http.StatusNotFound, nil, errors.New("no such method")
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return http.StatusBadRequest, nil, err
	}
	conversation, tools, err := w.read(body)
	if err != nil {
		return http.StatusBadRequest, nil, err
	}
	if why := check(conversation); why != "" || !tools {
		return http.StatusBadRequest, nil, fmt.Errorf("no tools, or %s", why)
	}
	line, index := turn(conversation)
	if index >= len(s.script[line]) {
		return http.StatusBadRequest, nil, fmt.Errorf("the script has no turn %d of line %.40q", index+1, line)
	}
	t := s.script[line][index]
	if t.Calls, err = fill(t.Calls, conversation); err != nil {
		return http.StatusBadRequest, nil, err
	}
	if status := s.refusal(line, index, t); status != 0 {
		return status, nil, errors.New("as the script says")
	}
	ids := make([]string, len(t.Calls))
	for i := range ids {
		ids[i] = fmt.Sprintf("call_%s_%d_%d", strings.ReplaceAll(line, ".", "-"), index+1, i+1)
	}
	said := len(t.Text)
	for _, c := range t.Calls {
		said += len(text(c.Arguments))
	}
	tokens := [2]int{len(body)/4 + 1, said/4 + 1}
	var wanted struct {
		Stream bool `json:"stream"`
	}
	if err := json.Unmarshal(body, &wanted); err != nil {
		return http.StatusBadRequest, nil, err
	}
	if !streamed && !wanted.Stream || t.Plain {
		return http.StatusOK, w.answer(t, ids, tokens), nil
	}
	events := w.stream(t, ids, tokens)
	if s.breaks(line, index, t) {
		events = events[:len(events)/2]
	}
	return http.StatusOK, events, nil
}

// breaks says whether a stream is to end within the answer.
func (s *Server) breaks(line string, index int, t Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[fmt.Sprintf("%s/%d", line, index)] <= len(t.Refuse)+t.Break
}

// send writes server-sent events.
func send(rw http.ResponseWriter, events []any) {
	for _, e := range events {
		if _, err := io.WriteString(rw, event(e)+"\n\n"); err != nil {
			return // whoever asked is gone
		}
		if f, ok := rw.(http.Flusher); ok {
			f.Flush()
		}
	}
}

// event is one: an object, which may have a type, or text as it stands.
func event(e any) string {
	o, ok := e.(object)
	if !ok {
		return fmt.Sprintf("data: %s", e)
	}
	data := "data: " + text(o)
	if name, ok := o["type"].(string); ok {
		return "event: " + name + "\n" + data
	}
	return data
}

// refusal is the status that a request is refused with, if it is.
func (s *Server) refusal(line string, index int, t Turn) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := fmt.Sprintf("%s/%d", line, index)
	n := s.asked[at]
	s.asked[at]++
	if n < len(t.Refuse) {
		return t.Refuse[n]
	}
	return 0
}
