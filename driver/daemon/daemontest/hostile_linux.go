package daemontest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	// hostileTime is how long a request may take whose answer has no end, and
	// hostileMemory how much it may allocate.
	hostileTime   = 4 * time.Minute
	hostileMemory = 128 << 20
)

// hostile are answers without an end, each its beginning and what is repeated.
var hostile = map[string][2]string{
	"body":    {"HTTP/1.1 200 OK\r\nApi-Version: 1.51\r\n\r\n{\"type\":\"sync\",\"metadata\":{\"x\":\"", "x"},
	"list":    {"HTTP/1.1 200 OK\r\nApi-Version: 1.51\r\n\r\n[", "{},"},
	"chunks":  {"HTTP/1.1 200 OK\r\nApi-Version: 1.51\r\nTransfer-Encoding: chunked\r\n\r\n", "200\r\n" + strings.Repeat(" ", 0x200) + "\r\n"},
	"failure": {"HTTP/1.1 400 No\r\n\r\n{\"message\":\"", "x"},
	"header":  {"HTTP/1.1 200 OK\r\nX: ", "x"},
	"headers": {"HTTP/1.1 200 OK\r\n", "X: x\r\n"},
	"waiting": {"", "HTTP/1.1 100 Continue\r\n\r\n"},
}

// Hostile holds a request of a daemon over HTTP, at a socket, against answers that never
// end: it must fail by itself, soon and in little memory, with few words. One that reads
// nothing of a good answer, or the beginning only, may succeed.
func Hostile(t *testing.T, beginning bool, ask func(ctx context.Context, socket string) error) {
	for name, answer := range hostile {
		t.Run(name, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "s")
			serveEndless(t, socket, answer[0], answer[1])
			ctx, cancel := context.WithTimeout(t.Context(), hostileTime)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := ask(ctx, socket)
			runtime.ReadMemStats(&after)
			good := strings.HasPrefix(answer[0], "HTTP/1.1 200 OK\r\nApi")
			switch took := after.TotalAlloc - before.TotalAlloc; {
			case ctx.Err() != nil:
				t.Errorf("it ended only with its context: %v", err)
			case err == nil && !(good && beginning):
				t.Error("it is taken for an answer")
			case took > hostileMemory:
				t.Errorf("it took %d MiB: %.200v", took>>20, err)
			case err != nil && len(err.Error()) > 4<<10:
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func serveEndless(t *testing.T, socket, first, then string) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	block := strings.Repeat(then, 64<<10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				for _, err := fmt.Fprint(conn, first); err == nil; {
					_, err = fmt.Fprint(conn, block)
				}
			}()
		}
	}()
}
