package guest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"aether/guest"
)

// TestEndlessRefusal has a guest answer without an end.
func TestEndlessRefusal(t *testing.T) {
	for name, answer := range map[string][2]string{
		"failure":   {"HTTP/1.1 500 No\r\n\r\n", "x"},
		"header":    {"HTTP/1.1 204 OK\r\nX: ", "x"},
		"headers":   {"HTTP/1.1 204 OK\r\n", "X: x\r\n"},
		"waiting":   {"", "HTTP/1.1 100 Continue\r\n\r\n"},
		"elsewhere": {"HTTP/1.1 307 There\r\nLocation: http://guest/\r\n\r\n", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			dial := func(context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					_, _ = http.ReadRequest(bufio.NewReader(theirs))
					for _, err := fmt.Fprint(theirs, answer[0]); err == nil; {
						_, err = fmt.Fprint(theirs, strings.Repeat(answer[1], 4<<10))
					}
				}()
				return ours, nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := guest.Post(ctx, dial, "/init", nil)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; err == nil || ctx.Err() != nil || took > 16<<20 || len(err.Error()) > 8<<10 {
				t.Errorf("%d MiB, %.300v", took>>20, err)
			}
		})
	}
}

// TestPoster: one request after another goes over one connection, which is given up at the end.
// On a busy host net/http may not hear in time that it has sent the first, and gives the
// connection up before: so it may be tried again.
func TestPoster(t *testing.T) {
	for try := 1; ; try++ {
		err := postTwice(t)
		if err == nil {
			return
		}
		if t.Log(err); try == 20 {
			t.Fatal("there is always another connection")
		}
	}
}

func postTwice(t *testing.T) error {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	dials := 0
	p := guest.NewPoster(func(context.Context) (net.Conn, error) {
		if dials++; dials > 1 {
			return nil, errors.New("there is one connection")
		}
		return ours, nil
	})
	served := make(chan error, 1)
	go func() {
		in := bufio.NewReader(theirs)
		for n := range 2 {
			req, err := http.ReadRequest(in)
			if err == nil && (req.Method != http.MethodPost || req.Close) {
				t.Errorf("request %d is %+v", n, req)
			}
			if err == nil {
				_, err = io.WriteString(theirs, "HTTP/1.1 204 No Content\r\n\r\n")
			}
			if err != nil {
				served <- err
				return
			}
		}
		_, err := in.ReadByte()
		if err == io.EOF {
			err = nil
		}
		served <- err
	}()
	var errs []error
	for _, path := range []string{"/one", "/two"} {
		errs = append(errs, p.Post(t.Context(), path, nil))
	}
	p.Close()
	return errors.Join(append(errs, <-served)...)
}
