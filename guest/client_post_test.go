package guest_test

import (
	"bufio"
	"context"
	"fmt"
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
