package guest_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/guest"

	pb "aether/guest/wire/filesystem"
)

const (
	// hostileTime is how long a call may take whose answer has no end.
	hostileTime = 4 * time.Minute
	// hostileMemory is how much a call may allocate in all.
	hostileMemory = 192 << 20
)

// hostileCalls are all calls of a client that wait for an answer.
var hostileCalls = map[string]func(context.Context, *guest.Client) error{
	"stat":      func(ctx context.Context, c *guest.Client) error { _, err := c.Stat(ctx, "/x"); return err },
	"list":      func(ctx context.Context, c *guest.Client) error { _, err := c.List(ctx, "/", 1); return err },
	"make":      func(ctx context.Context, c *guest.Client) error { return c.MakeDir(ctx, "/x") },
	"move":      func(ctx context.Context, c *guest.Client) error { return c.Move(ctx, "/x", "/y") },
	"remove":    func(ctx context.Context, c *guest.Client) error { return c.Remove(ctx, "/x") },
	"processes": func(ctx context.Context, c *guest.Client) error { _, err := c.Processes(ctx); return err },
	"watch": func(ctx context.Context, c *guest.Client) error {
		return c.Watch(ctx, "/", true, func() {}, func(*pb.FilesystemEvent) {})
	},
	"start": func(ctx context.Context, c *guest.Client) error {
		r, err := c.Start(ctx, guest.Cmd{Path: "true"})
		return follow(r, err)
	},
	"connect": func(ctx context.Context, c *guest.Client) error {
		r, err := c.Connect(ctx, 7, guest.Cmd{})
		return follow(r, err)
	},
}

func follow(r *guest.Running, err error) error {
	if err == nil {
		_, err = r.Wait()
	}
	return err
}

// streaming are the calls whose answer is a stream of messages.
var streaming = []string{"watch", "start", "connect"}

// hostile answers every request of a connection with the same bytes.
func hostile(t *testing.T, answer func(io.Writer, bool)) *guest.Client {
	client := guest.NewClient(func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			req, err := http.ReadRequest(bufio.NewReader(theirs))
			if err != nil {
				return
			}
			if req.Body != nil {
				_, _ = io.Copy(io.Discard, io.LimitReader(req.Body, req.ContentLength))
			}
			answer(theirs, strings.HasPrefix(req.Header.Get("Content-Type"), "application/connect+"))
		}()
		return ours, nil
	}, guest.ClientOptions{})
	t.Cleanup(client.Close)
	return client
}

// endless writes until nobody reads any more.
func endless(w io.Writer, first string, then []byte) {
	for _, err := io.WriteString(w, first); err == nil; {
		_, err = w.Write(then)
	}
}

func contentType(stream bool) string {
	if stream {
		return "application/connect+proto"
	}
	return "application/proto"
}

func head(stream bool, more ...string) string {
	return "HTTP/1.1 200 OK\r\nContent-Type: " + contentType(stream) + "\r\n" + strings.Join(more, "") + "\r\n"
}

func frame(flags byte, size uint32) string {
	return string(binary.BigEndian.AppendUint32([]byte{flags}, size))
}

func zipped(of []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(of)
	_ = w.Close()
	return bytes.Repeat(out.Bytes(), 600) // members of one stream
}

var block = bytes.Repeat([]byte{0}, 1<<20)

// hostileAnswers are answers of a service that code in the sandbox has taken over.
func hostileAnswers() map[string]func(io.Writer, bool) {
	bomb := zipped(block)
	empty := bytes.Repeat([]byte("\x0a\x00"), 512<<10)
	details := bytes.Repeat([]byte("{},"), 300<<10)
	return map[string]func(io.Writer, bool){
		"endless body": func(w io.Writer, stream bool) {
			first := ""
			if stream {
				first = frame(0, 600<<20)
			}
			endless(w, head(stream)+first, block)
		},
		"messages of nothing": func(w io.Writer, stream bool) { // two bytes each, hundreds where they are decoded
			first := ""
			if stream {
				first = frame(0, 16<<20)
			}
			_, _ = io.WriteString(w, head(stream)+first)
			for range 16 {
				_, _ = w.Write(empty)
			}
		},
		"zipped": func(w io.Writer, stream bool) {
			if stream {
				_, _ = io.WriteString(w, head(stream, "Connect-Content-Encoding: gzip\r\n")+frame(1, uint32(len(bomb))))
			} else {
				_, _ = io.WriteString(w, head(stream, "Content-Encoding: gzip\r\n"))
			}
			_, _ = w.Write(bomb)
		},
		"endless failure": func(w io.Writer, stream bool) {
			endless(w, "HTTP/1.1 400 No\r\nContent-Type: application/json\r\n\r\n{\"code\":\"internal\",\"message\":\"", bytes.Repeat([]byte("x"), 1<<20))
		},
		"failure of details": func(w io.Writer, stream bool) {
			first := "HTTP/1.1 400 No\r\nContent-Type: application/json\r\n\r\n"
			text := slices.Concat([]byte(`{"code":"internal","details":[`), bytes.Repeat(details, 18), []byte("{}]}"))
			if stream {
				text = slices.Concat([]byte(`{"error":`), text, []byte("}"))
				first = head(stream) + frame(2, uint32(len(text)))
			}
			_, _ = io.WriteString(w, first)
			_, _ = w.Write(text)
		},
		"endless after the end": func(w io.Writer, stream bool) {
			endless(w, head(stream)+frame(2, 2)+"{}", block)
		},
		"endless header": func(w io.Writer, stream bool) { endless(w, "HTTP/1.1 200 OK\r\nX: ", bytes.Repeat([]byte("x"), 1<<20)) },
		"endless headers": func(w io.Writer, stream bool) {
			endless(w, "HTTP/1.1 200 OK\r\n", bytes.Repeat([]byte("X: x\r\n"), 1<<16))
		},
		"endless patience": func(w io.Writer, stream bool) { endless(w, "", []byte("HTTP/1.1 100 Continue\r\n\r\n")) },
		"endless trailers": func(w io.Writer, stream bool) {
			end := fmt.Sprintf("%x\r\n%s{}\r\n0\r\n", 7, frame(2, 2))
			endless(w, head(stream, "Transfer-Encoding: chunked\r\n")+end, bytes.Repeat([]byte("X: x\r\n"), 1<<16))
		},
		"endless extension": func(w io.Writer, stream bool) {
			endless(w, head(stream, "Transfer-Encoding: chunked\r\n")+"1;", bytes.Repeat([]byte("x"), 1<<20))
		},
	}
}

// TestHostileService has a service answer without an end, or with little that becomes
// much. Every call must fail by itself, soon, and in little memory.
func TestHostileService(t *testing.T) {
	for name, answer := range hostileAnswers() {
		for call, do := range hostileCalls {
			// All unary calls are made by one piece of code, and all streams by another.
			if name != "endless body" && name != "messages of nothing" && call != "stat" && call != "start" && call != "watch" {
				continue
			}
			t.Run(name+"/"+call, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), hostileTime)
				defer cancel()
				allocated, err := allocates(func() error { return do(ctx, hostile(t, answer)) })
				switch {
				case ctx.Err() != nil:
					t.Errorf("it ended only with its context: %v", err)
				case err == nil && !harmless(name, call):
					t.Error("it is taken for an answer")
				case allocated > hostileMemory:
					t.Errorf("it took %d MiB: %.200v", allocated>>20, err)
				case err != nil && len(err.Error()) > 4<<10:
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		}
	}
}

// harmless are answers that some calls need not notice: of a message without fields,
// unknown ones are passed over; a stream that ends in order has ended, whatever follows
// on its connection, which is closed.
func harmless(answer, call string) bool {
	if call == "watch" && (answer == "endless after the end" || answer == "endless trailers") {
		return true
	}
	return answer == "messages of nothing" && slices.Contains([]string{"make", "move", "remove", "stat"}, call)
}

func allocates(do func() error) (int64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc), err
}

// TestEndlessEvents has streams go on for ever with events that say nothing, and
// services say nothing at all: only the context ends those.
func TestEndlessEvents(t *testing.T) {
	for name, answer := range map[string]func(io.Writer, bool){
		"events":  func(w io.Writer, stream bool) { endless(w, head(stream), bytes.Repeat([]byte(frame(0, 0)), 1<<16)) },
		"silence": func(w io.Writer, stream bool) { time.Sleep(hostileTime) },
		"half":    func(w io.Writer, stream bool) { _, _ = io.WriteString(w, head(stream)); time.Sleep(hostileTime) },
	} {
		for call, do := range hostileCalls {
			if name == "events" && !slices.Contains(streaming, call) {
				continue
			}
			t.Run(name+"/"+call, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(200*time.Millisecond, cancel)
				begun := time.Now()
				if err := do(ctx, hostile(t, answer)); err == nil {
					t.Error("it is taken for an answer")
				}
				if took := time.Since(begun); took > hostileTime/2 {
					t.Errorf("it took %v", took)
				}
			})
		}
	}
}
