package guest

import (
	"encoding/binary"
	"io"
	"net/http"
	"strings"

	"aether/internal/bounded"
)

const (
	// maxMessage bounds one message, in either direction, and maxHeader all headers of
	// a request or an answer.
	maxMessage = 16 << 20
	maxHeader  = 64 << 10
	// maxHTTPError bounds what is read of a failure.
	maxHTTPError = 64 << 10
)

// boundedCalls is an HTTP client whose answers end. The service at the other end may
// be in the hands of the code in its sandbox. Connect has a bound for messages, but
// reads those beyond it to their end, which need not come.
type boundedCalls struct{ *http.Client }

// Do implements connect.HTTPClient.
func (c boundedCalls) Do(req *http.Request) (*http.Response, error) {
	res, err := c.Client.Do(req)
	if err != nil {
		return nil, err
	}
	body := res.Body
	switch {
	case res.StatusCode != http.StatusOK:
		res.Body = boundedBody{&bounded.Reader{From: body, What: "the guest service's failure", Max: maxHTTPError}, body}
	case strings.HasPrefix(res.Header.Get("Content-Type"), "application/connect+"):
		res.Body = boundedBody{&boundedFrames{from: body}, body}
	default:
		res.Body = boundedBody{&bounded.Reader{From: body, What: "the guest service's answer", Max: maxMessage}, body}
	}
	return res, nil
}

type boundedBody struct {
	io.Reader
	io.Closer
}

// A stream is made of frames: a byte of flags, the size, and as many bytes.
const (
	frameHeader   = 5
	lastFrameFlag = 2
)

// boundedFrames passes a stream on and bounds each of its frames. The last one holds
// the failure and the trailers; nothing comes after it.
type boundedFrames struct {
	from   io.Reader
	header [frameHeader]byte
	unread []byte // of header
	left   int64  // bytes of the frame that are still to come
	last   bool
}

// Read implements io.Reader.
func (f *boundedFrames) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if len(f.unread) == 0 && f.left == 0 {
		if f.last {
			return f.end()
		}
		if err := f.next(); err != nil {
			return 0, err
		}
	}
	if len(f.unread) > 0 {
		n := copy(b, f.unread)
		f.unread = f.unread[n:]
		return n, nil
	}
	n, err := f.from.Read(b[:min(int64(len(b)), f.left)])
	f.left -= int64(n)
	return n, err
}

func (f *boundedFrames) next() error {
	if _, err := io.ReadFull(f.from, f.header[:]); err != nil {
		return err
	}
	what, most := "a message of the guest service", int64(maxMessage)
	if f.last = f.header[0]&lastFrameFlag != 0; f.last {
		what, most = "the end of the guest service's answer", maxHTTPError
	}
	if f.left = int64(binary.BigEndian.Uint32(f.header[1:])); f.left > most {
		return &bounded.TooLong{What: what, Max: most}
	}
	f.unread = f.header[:]
	return nil
}

// end finds the end of the body, without which the connection cannot be used again.
func (f *boundedFrames) end() (int, error) {
	n, err := f.from.Read(make([]byte, 1))
	if n > 0 {
		return 0, &bounded.TooLong{What: "what follows the end of the guest service's answer"}
	}
	return 0, err
}
