package vmm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"unicode"

	"aether/internal/bounded"
	"aether/sandbox"
)

// maxBody bounds what is read of an answer: a monitor that a guest has taken over
// may say anything.
const maxBody = 64 << 10

// Client speaks JSON over HTTP to one monitor.
type Client struct {
	http *http.Client
	// fault finds the words in the body of a refusal.
	fault func(body []byte) string
}

// NewClient makes a client. Fault finds the monitor's own words in a refusal; what
// it does not understand it gives back as it is.
func NewClient(dial Dial, fault func(body []byte) string) *Client {
	return &Client{fault: fault, http: &http.Client{
		// Nobody sends a client of a monitor elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			DisableCompression:     true,
			MaxIdleConns:           1,
			MaxResponseHeaderBytes: maxBody,
		},
	}}
}

// Close gives up the connections that are idle.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call sends in, if it is not nil, and reads the answer into out, if that is not
// nil. Errors: Unavailable, with the monitor's own words, for a refusal; Internal
// for an answer that no monitor gives; Timeout.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	if err := c.call(ctx, method, path, in, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	req, err := newRequest(ctx, method, path, in)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return errors.Unwrap(err) // without the method and the address once more
	}
	defer res.Body.Close()
	body, err := bounded.ReadAll(res.Body, "the answer", maxBody)
	switch {
	case err != nil:
		return err
	case res.StatusCode >= http.StatusBadRequest:
		return &sandbox.Error{Class: sandbox.Unavailable, Reason: c.words(res.StatusCode, body)}
	case res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNoContent:
		return fmt.Errorf("the answer is %d, which no monitor gives", res.StatusCode)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	return nil
}

func newRequest(ctx context.Context, method, path string, in any) (*http.Request, error) {
	if in == nil {
		return http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err == nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, err
}

// maxWords bounds a refusal in an error.
const maxWords = 1 << 10

// words are a refusal as one line with nothing in it that a terminal would act on.
func (c *Client) words(status int, body []byte) string {
	text := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, c.fault(body))
	if text = strings.TrimSpace(text); text == "" {
		return fmt.Sprintf("it is refused with status %d", status)
	}
	return fmt.Sprintf("%.*s", maxWords, text)
}
