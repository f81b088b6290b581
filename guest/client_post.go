package guest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"aether/sandbox"
)

// maxRefusal bounds what is read of why something was not done.
const maxRefusal = 4 << 10

// Post has a guest do something that is answered by nothing but its success, over a
// connection of its own. Errors: Unsupported if the guest has no such path.
func Post(ctx context.Context, dial func(context.Context) (net.Conn, error), path string, body []byte) error {
	client := http.Client{Transport: &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}, CheckRedirect: stay}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, clientURL+path, bytes.NewReader(body))
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
	return refusal(path, res)
}

func refusal(path string, res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("guest: %s: %w", path, err)
	}
	class := sandbox.Internal
	if res.StatusCode == http.StatusNotFound {
		class = sandbox.Unsupported
	}
	return &sandbox.Error{Class: class, Op: "guest: " + path, Reason: res.Status + ": " + strings.TrimSpace(string(text))}
}
