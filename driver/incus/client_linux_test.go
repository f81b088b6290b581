package incus

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"aether/sandbox"
)

// answering is a client of a daemon that answers by path.
func answering(t *testing.T, answers map[string]string) *client {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.Path]
		if !ok {
			text = `{"type":"error","error_code":404,"error":"not found"}`
		}
		_, _ = w.Write([]byte(text))
	})}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() { server.Close() })
	return connect(listener.Addr().String())
}

// TestOperationsThatFail: however a daemon puts it, a task that was not done is an
// error with a class.
func TestOperationsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		began, wait string
		class       sandbox.Class
		words       string
	}{
		"a failure":         {`{"type":"async","operation":"/1.0/operations/a"}`, `{"type":"sync","metadata":{"status_code":400,"err":"it broke"}}`, sandbox.Internal, "it broke"},
		"cancelled":         {`{"type":"async","operation":"/1.0/operations/a"}`, `{"type":"sync","metadata":{"status_code":401}}`, sandbox.Internal, "code 0"},
		"full":              {`{"type":"async","operation":"/1.0/operations/a"}`, `{"type":"sync","metadata":{"status_code":400,"err":"write: No space left on device"}}`, sandbox.Exhausted, "full"},
		"no ids":            {`{"type":"async","operation":"/1.0/operations/a"}`, `{"type":"sync","metadata":{"status_code":400,"err":"Not enough uid/gid available for the container"}}`, sandbox.Exhausted, "subuid"},
		"lost":              {`{"type":"async","operation":"/1.0/operations/b"}`, ``, sandbox.Internal, "not found"},
		"another address":   {`{"type":"async","operation":"/1.0/../../x"}`, ``, sandbox.Unavailable, "operation"},
		"no address":        {`{"type":"async"}`, ``, sandbox.Unavailable, "operation"},
		"wrong operation":   {`{"type":"async","operation":"/1.0/operations/a"}`, `{"type":"sync","metadata":[1]}`, sandbox.Unavailable, "not that of Incus"},
		"denied":            {`{"type":"error","error_code":403,"error":"no"}`, ``, sandbox.Denied, "no"},
		"conflict":          {`{"type":"error","error_code":409,"error":"there"}`, ``, sandbox.Conflict, "there"},
		"shutting down":     {`{"type":"error","error_code":503,"error":"later"}`, ``, sandbox.Unavailable, "later"},
		"a code of nothing": {`{"type":"error","error_code":7,"error":"x"}`, ``, sandbox.Unavailable, "not that of Incus"},
		"many words":        {`{"type":"error","error_code":500,"error":"` + strings.Repeat("x", 1<<20) + `"}`, ``, sandbox.Internal, "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := answering(t, map[string]string{"/do": c.began, "/1.0/operations/a/wait": c.wait})
			err := explain(c2.do(t.Context(), http.MethodPost, "/do", nil))
			if err == nil || sandbox.ClassOf(err) != c.class || !strings.Contains(err.Error(), c.words) || len(err.Error()) > 2*maxWords {
				t.Errorf("%s: %.300v", sandbox.ClassOf(err), err)
			}
		})
	}
}

func TestDaemonWithoutPools(t *testing.T) {
	for name, c := range map[string]struct{ pools, words string }{
		"none":    {`[]`, "no storage pool"},
		"several": {`[{"name":"a"},{"name":"b"}]`, "several"},
		"lost":    {`[{"name":"a/../b"}]`, "no storage pool"},
	} {
		api := answering(t, map[string]string{"/1.0/storage-pools": `{"type":"sync","metadata":` + c.pools + `}`})
		_, err := api.pool(t.Context(), "")
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Class != sandbox.Unavailable || !strings.Contains(e.Reason, c.words) || e.Remedy == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestImageWithAWrongFingerprint: it becomes a part of paths.
func TestImageWithAWrongFingerprint(t *testing.T) {
	api := answering(t, map[string]string{"/1.0/images": `{"type":"async","operation":"/1.0/operations/a"}`,
		"/1.0/operations/a/wait": `{"type":"sync","metadata":{"status_code":200,"metadata":{"fingerprint":"../x"}}}`})
	if _, err := api.sendImage(t.Context(), label{"n", "s"}, []string{t.TempDir()}); sandbox.ClassOf(explain(err)) != sandbox.Unavailable {
		t.Error(err)
	}
}

// FuzzOpen: nothing that a daemon says is taken for success unless it is said in
// so many words.
func FuzzOpen(f *testing.F) {
	for _, text := range []string{`{"type":"sync","metadata":{}}`, `{"type":"async","operation":"/1.0/operations/a"}`,
		`{"type":"error","error_code":404,"error":"x"}`, `{}`, `[]`, `null`, ``, "\xff", `{"type":"error","error_code":-1}`} {
		f.Add(200, []byte(text))
	}
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		e, err := open(status, text)
		if err == nil && (status >= 400 || !json.Valid(text) || e.Type != "sync" && e.Type != "async") {
			t.Errorf("%d %q is taken for success", status, text)
		}
		if err != nil && explain(err) == nil {
			t.Errorf("%v is lost", err)
		}
	})
}
