package image

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestEndlessRegistry has a registry answer without an end, at every step that comes
// before the layers. The answer must be given up by itself, soon and in little memory.
func TestEndlessRegistry(t *testing.T) {
	block := []byte(strings.Repeat(" ", 1<<20))
	endless := func(w http.ResponseWriter) {
		for err := error(nil); err == nil; {
			_, err = w.Write(block)
		}
	}
	for name, c := range map[string]struct {
		path   string
		answer func(http.ResponseWriter)
	}{
		"ping":           {"/v2/", endless},
		"ping's failure": {"/v2/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot); endless(w) }},
		"manifest":       {"/manifests/", endless},
		"no manifest":    {"/manifests/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound); endless(w) }},
		"configuration":  {"/blobs/", endless},
		"no blob":        {"/blobs/", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound); endless(w) }},
		"header":         {"/v2/", func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", 4<<20)) }},
	} {
		t.Run(name, func(t *testing.T) {
			armed := false
			host := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				hit := armed && (r.URL.Path == c.path || c.path != "/v2/" && strings.Contains(r.URL.Path, c.path))
				if hit {
					c.answer(w)
				}
				return !hit
			})
			push(t, host+"/team/app:v1", sampleImage(t))
			armed = true
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := openStore(t).Resolve(ctx, host+"/team/app:v1", nil)
			runtime.ReadMemStats(&after)
			switch took := after.TotalAlloc - before.TotalAlloc; {
			case ctx.Err() != nil:
				t.Errorf("it ended only with its context: %v", err)
			case err == nil && name != "ping": // the answer to which nobody needs
				t.Error("it is taken for an answer")
			case took > 192<<20:
				t.Errorf("it took %d MiB: %.200v", took>>20, err)
			case err != nil && len(err.Error()) > 8<<10:
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}
