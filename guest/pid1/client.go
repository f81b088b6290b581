package pid1

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"aether/sandbox"
)

// Dial opens a connection to a first process, as sandbox.Instance.Dial does.
type Dial func(context.Context) (net.Conn, error)

// SetClock sets a machine's time, which stood still while it was paused, stored
// or on its way.
func SetClock(ctx context.Context, dial Dial, now time.Time) error {
	return dial.post(ctx, "/aether/clock", []byte(now.UTC().Format(time.RFC3339Nano)))
}

// AddEntropy gives a machine up to 512 bytes that nobody else knows.
func AddEntropy(ctx context.Context, dial Dial, secret []byte) error {
	return dial.post(ctx, "/aether/entropy", secret)
}

// Configure makes somebody's machine of one that awaits it, once. A machine that
// could not be set up is of no use any more.
func Configure(ctx context.Context, dial Dial, c Configuration) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return dial.post(ctx, "/aether/configure", body)
}

// PowerOff ends a machine. It may end before it answers: only its monitor knows.
func PowerOff(ctx context.Context, dial Dial) error {
	return dial.post(ctx, "/aether/poweroff", nil)
}

// maxAnswer bounds what is read of a failure, and maxHeader the headers of a request or
// an answer.
const maxAnswer, maxHeader = 4 << 10, 64 << 10

// stay follows no redirection: a machine has no reason to send its host anywhere.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (dial Dial) post(ctx context.Context, path string, body []byte) error {
	client := http.Client{Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}, CheckRedirect: stay}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://guest"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("guest: %s: %w", path, err)
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNoContent {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("guest: %s: %w", path, err)
	}
	class := sandbox.Internal
	if res.StatusCode == http.StatusNotFound {
		class = sandbox.Unsupported
	}
	return &sandbox.Error{Class: class, Op: "guest: " + path, Reason: strings.TrimSpace(string(text))}
}
