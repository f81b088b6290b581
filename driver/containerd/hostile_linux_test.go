package containerd

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestHostileDaemon: what a daemon says has parts that its containers choose, and ends
// here even if it does not there.
func TestHostileDaemon(t *testing.T) {
	block := strings.Repeat("\x00", 1<<20)
	grpc := func(w http.ResponseWriter, frame string) {
		w.Header().Set("Content-Type", "application/grpc+proto")
		_, _ = w.Write([]byte(frame))
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"frame":   func(w http.ResponseWriter) { grpc(w, "\x00\xff\xff\xff\xff"); endless(w, block) },
		"frames":  func(w http.ResponseWriter) { grpc(w, ""); endless(w, block) },
		"failure": func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot); endless(w, block) },
		"headers": func(w http.ResponseWriter) {
			w.Header().Set("X", strings.Repeat("x", 8<<20))
			grpc(w, "\x00\x00\x00\x00\x00")
		},
		"trailers": func(w http.ResponseWriter) {
			grpc(w, "\x00\x00\x00\x00\x00")
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "13")
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", strings.Repeat("x", 8<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			client := newClient(serving(t, answer))
			defer client.close()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := client.call(ctx, version, "Version", nil)
			runtime.ReadMemStats(&after)
			switch took := after.TotalAlloc - before.TotalAlloc; {
			case ctx.Err() != nil:
				t.Errorf("it ended only with its context: %v", err)
			case err == nil:
				t.Error("it is taken for an answer")
			case took > 192<<20:
				t.Errorf("it took %d MiB: %.200v", took>>20, err)
			case len(err.Error()) > 4<<10:
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func endless(w http.ResponseWriter, block string) {
	for err := error(nil); err == nil; {
		_, err = w.Write([]byte(block))
	}
}

func serving(t *testing.T, answer func(http.ResponseWriter)) (socket string) {
	socket = filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer(w) })}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
	return socket
}
