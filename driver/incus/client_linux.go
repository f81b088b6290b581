package incus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"time"

	"aether/driver/daemon"
	"aether/driver/guestagent"
)

const (
	// maxAnswer bounds what is read of an answer.
	maxAnswer = 8 << 20
	// maxWords bounds what is kept of a daemon's explanation.
	maxWords = 1 << 10
)

// client speaks to a daemon over its socket.
type client struct {
	socket string
	http   *http.Client
}

func connect(socket string) *client { return &client{socket, daemon.HTTP(socket)} }

// envelope is around everything that a daemon answers.
type envelope struct {
	Type      string          `json:"type"`
	Operation string          `json:"operation"`
	Code      int             `json:"error_code"`
	Error     string          `json:"error"`
	Metadata  json.RawMessage `json:"metadata"`
}

// refusal is a failure that the daemon told.
type refusal struct {
	code int // as of HTTP, or 0 where a task failed
	text string
}

func (r *refusal) Error() string { return "the daemon says: " + r.text }

func refused(code int, text string) error {
	// A sandbox, of which it may speak, is not to lead a terminal astray.
	text = guestagent.Printable(text[:min(len(text), maxWords)])
	if text == "" {
		text = fmt.Sprintf("code %d", code)
	}
	return &refusal{code, text}
}

// nonsense is an answer that no daemon of Incus gives.
type nonsense struct{ text string }

func (n *nonsense) Error() string { return "the daemon's answer is not that of Incus: " + n.text }

func nonsensef(format string, args ...any) error { return &nonsense{fmt.Sprintf(format, args...)} }

// get asks for a thing as it is now.
func (c *client) get(ctx context.Context, path string, out any) error {
	answer, err := c.ask(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if answer.Type != "sync" {
		return nonsensef("type %.20q", answer.Type)
	}
	if err := json.Unmarshal(answer.Metadata, out); err != nil {
		return nonsensef("%v", err)
	}
	return nil
}

// ask sends a request with an optional value as JSON.
func (c *client) ask(ctx context.Context, method, path string, in any) (envelope, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return envelope{}, err
		}
		body = bytes.NewReader(text)
	}
	return c.send(ctx, method, path, "application/json", body)
}

// send sends a request and reads the envelope of the answer.
func (c *client) send(ctx context.Context, method, path, kind string, body io.Reader) (envelope, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://incus"+path, body)
	if err != nil {
		return envelope{}, err
	}
	request.Header.Set("Content-Type", kind)
	response, err := c.http.Do(request)
	if err != nil {
		return envelope{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return envelope{}, err
	}
	return open(response.StatusCode, text)
}

// open reads an envelope.
func open(status int, text []byte) (e envelope, err error) {
	if len(text) > maxAnswer {
		return e, nonsensef("it has more than %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return e, nonsensef("status %d, %v", status, err)
	}
	switch {
	case e.Type == "error" && e.Code >= 400 && e.Code < 600:
		return e, refused(e.Code, e.Error)
	case e.Type != "sync" && e.Type != "async":
		return e, nonsensef("status %d, type %.20q", status, e.Type)
	case status >= 400:
		return e, refused(status, e.Error)
	}
	return e, nil
}

// read gives a file that the daemon keeps of an instance, or its beginning.
func (c *client) read(ctx context.Context, path string, most int64) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://incus"+path, nil)
	if err != nil {
		return "", err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err == nil && response.StatusCode != http.StatusOK {
		return "", refused(response.StatusCode, "")
	}
	return guestagent.Printable(string(text)), err
}

// operation is a task of the daemon.
type operation struct {
	Code     int             `json:"status_code"`
	Err      string          `json:"err"`
	Metadata json.RawMessage `json:"metadata"`
}

// States of an operation.
const (
	opRunning = 103
	opSuccess = 200
)

var operationPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/1\.0/operations/[0-9a-fA-F-]{1,64}$`) })

// pollTime is how long one request waits for an operation.
const pollTime = 20 * time.Second

// do has the daemon do something and waits until it is done.
func (c *client) do(ctx context.Context, method, path string, in any) error {
	answer, err := c.ask(ctx, method, path, in)
	if err != nil {
		return err
	}
	_, err = c.await(ctx, answer)
	return err
}

// await waits for what a daemon began.
func (c *client) await(ctx context.Context, began envelope) (op operation, err error) {
	if began.Type == "sync" {
		return op, nil // it was done at once
	}
	if !operationPath().MatchString(began.Operation) {
		return op, nonsensef("operation %.80q", began.Operation)
	}
	path := fmt.Sprintf("%s/wait?timeout=%d", began.Operation, int(pollTime.Seconds()))
	for {
		if err := c.get(ctx, path, &op); err != nil {
			return op, err
		}
		switch op.Code {
		case opSuccess:
			return op, nil
		case opRunning:
		default:
			return op, refused(0, op.Err)
		}
		if err := daemon.Pause(ctx); err != nil { // a daemon need not wait as long as it is asked to
			return op, err
		}
	}
}

// gone says that what was asked for does not exist (any more).
func gone(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == http.StatusNotFound
}
