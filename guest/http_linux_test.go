package guest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/guest"
	"aether/guest/local"
)

// web serves an empty root over plain HTTP.
func web(t *testing.T, token string) (base, root string) {
	t.Helper()
	root = t.TempDir()
	backend, err := local.New(root, "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := guest.New(backend, guest.Options{AccessToken: token, WorkDir: "/", DefaultUser: strconv.Itoa(os.Getuid()), Env: map[string]string{"A": "B"}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service.Handler())
	t.Cleanup(func() {
		server.Close()
		service.Close()
	})
	return server.URL, root
}

type answer struct {
	status int
	body   string
	header http.Header
}

func ask(t *testing.T, method, url string, body io.Reader, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, string(text), res.Header}
}

func TestAccessToken(t *testing.T) {
	base, root := web(t, "secret")
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(-time.Minute).Unix()
	soon := time.Now().Add(time.Hour).Unix()
	signed := func(op, path, sig string, expiry int64) string {
		q := url.Values{"path": {path}, "signature": {sig}}
		if expiry != 0 {
			q.Set("signature_expiration", strconv.FormatInt(expiry, 10))
		}
		return base + "/files?" + q.Encode()
	}
	for _, c := range []struct {
		name, url, token string
		want             int
	}{
		{"health is open", base + "/health", "", 204},
		{"no token", base + "/envs", "", 401},
		{"a wrong token", base + "/envs", "secre", 401},
		{"the token", base + "/envs", "secret", 200},
		{"a file without token", base + "/files?path=/f", "", 401},
		{"a file with a wrong token", base + "/files?path=/f", "x", 401},
		{"a file with the token", base + "/files?path=/f", "secret", 200},
		{"a signature", signed("read", "/f", guest.Sign("/f", "read", "", "secret", 0), 0), "", 200},
		{"a signature that expires", signed("read", "/f", guest.Sign("/f", "read", "", "secret", soon), soon), "", 200},
		{"an expired signature", signed("read", "/f", guest.Sign("/f", "read", "", "secret", late), late), "", 401},
		{"a longer life", signed("read", "/f", guest.Sign("/f", "read", "", "secret", late), soon), "", 401},
		{"another file", signed("read", "/g", guest.Sign("/f", "read", "", "secret", 0), 0), "", 401},
		{"another operation", signed("read", "/f", guest.Sign("/f", "write", "", "secret", 0), 0), "", 401},
		{"calls too", base + "/process.Process/List", "", 401},
	} {
		header := []string{}
		if c.token != "" {
			header = []string{"X-Access-Token", c.token}
		}
		if got := ask(t, "GET", c.url, nil, header...); got.status != c.want {
			t.Errorf("%s: %d %s, want %d", c.name, got.status, got.body, c.want)
		}
	}
}

// TestSignatureMatchesClients holds the signature to one made with openssl.
func TestSignatureMatchesClients(t *testing.T) {
	if got := guest.Sign("/f", "read", "user", "token", 0); got != "v1_HGtBoj+GykUtU+Uxf55PUQaN6i1FOIbLIjhzSfDWlUQ" {
		t.Errorf("got %s", got)
	}
}

func TestInit(t *testing.T) {
	base, root := web(t, "")
	if err := os.Mkdir(filepath.Join(root, "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	post := func(body string, header ...string) int {
		return ask(t, "POST", base+"/init", strings.NewReader(body), header...).status
	}
	if got := post(`{"envVars":{"X":"new"},"accessToken":"t","timestamp":"2030-01-01T00:00:00Z","defaultWorkdir":"/w"}`); got != 204 {
		t.Fatalf("init: %d", got)
	}
	if got := post(`{"envVars":{"X":"stolen"}}`); got != 401 {
		t.Errorf("init without the token: %d", got)
	}
	if got := post(`{"envVars":{"X":"old"},"accessToken":"t","timestamp":"2029-01-01T00:00:00Z"}`); got != 204 {
		t.Errorf("an older init: %d", got)
	}
	if got := ask(t, "GET", base+"/envs", nil, "X-Access-Token", "t"); strings.TrimSpace(got.body) != `{"X":"new"}` {
		t.Errorf("envs: %s", got.body)
	}
	for _, body := range []string{"{", `{"envVars":{"A=B":""}}`, `{"defaultWorkdir":"rel"}`} {
		if got := post(body, "X-Access-Token", "t"); got != 400 {
			t.Errorf("%s: %d", body, got)
		}
	}
}

func TestMetrics(t *testing.T) {
	base, _ := web(t, "")
	var body map[string]float64
	for range 2 {
		got := ask(t, "GET", base+"/metrics", nil)
		if err := json.Unmarshal([]byte(got.body), &body); err != nil || got.status != 200 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	for _, field := range []string{"ts", "cpu_count", "cpu_used_pct", "mem_used", "disk_total"} {
		if _, ok := body[field]; !ok {
			t.Errorf("no %s in %v", field, body)
		}
	}
}

func TestUploads(t *testing.T) {
	base, root := web(t, "")
	form := func(names ...string) (io.Reader, string) {
		var buf bytes.Buffer
		w := multipart.NewWriter(&buf)
		for _, name := range names {
			part, err := w.CreateFormFile("file", name)
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(part, "in "+name)
		}
		w.WriteField("other", "x")
		w.Close()
		return &buf, w.FormDataContentType()
	}
	body, kind := form("/a/one", "/b/two")
	if got := ask(t, "POST", base+"/files", body, "Content-Type", kind); got.status != 200 ||
		strings.TrimSpace(got.body) != `[{"path":"/a/one","name":"one","type":"file"},{"path":"/b/two","name":"two","type":"file"}]` {
		t.Errorf("several: %+v", got)
	}
	body, kind = form("ignored")
	if got := ask(t, "POST", base+"/files?path=/c", body, "Content-Type", kind); got.status != 200 {
		t.Errorf("one: %+v", got)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, "unpacked")
	z.Close()
	if got := ask(t, "POST", base+"/files?path=/d", &packed, "Content-Type", "application/octet-stream", "Content-Encoding", "gzip"); got.status != 200 {
		t.Errorf("gzip: %+v", got)
	}
	for name, want := range map[string]string{"a/one": "in /a/one", "b/two": "in /b/two", "c": "in ignored", "d": "unpacked"} {
		if data, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(data) != want {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	same, kind := form("/x", "/x")
	for name, c := range map[string]answer{
		"twice":        ask(t, "POST", base+"/files", same, "Content-Type", kind),
		"no path":      ask(t, "POST", base+"/files", strings.NewReader("x"), "Content-Type", "application/octet-stream"),
		"what type":    ask(t, "POST", base+"/files?path=/x", strings.NewReader("x"), "Content-Type", "text/plain"),
		"not gzip":     ask(t, "POST", base+"/files?path=/x", strings.NewReader("x"), "Content-Type", "application/octet-stream", "Content-Encoding", "gzip"),
		"brotli":       ask(t, "POST", base+"/files?path=/x", strings.NewReader("x"), "Content-Type", "application/octet-stream", "Content-Encoding", "br"),
		"half a form":  ask(t, "POST", base+"/files", strings.NewReader("--b\r\nContent-Disposition: form-data; name=file; filename=x\r\n\r\nhalf"), "Content-Type", "multipart/form-data; boundary=b"),
		"bad metadata": ask(t, "POST", base+"/files?path=/x", strings.NewReader("x"), "Content-Type", "application/octet-stream", "X-Metadata-K", "caf\xc3\xa9"),
	} {
		if c.status != 400 || !strings.Contains(c.body, `"code":400`) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestRangesAndMetadata(t *testing.T) {
	base, _ := web(t, "")
	up := ask(t, "POST", base+"/files?path=/f", strings.NewReader("0123456789"), "Content-Type", "application/octet-stream", "X-Metadata-Origin", "test")
	if up.status != 200 {
		t.Fatalf("%+v", up)
	}
	if got := ask(t, "GET", base+"/files?path=/f", nil, "Range", "bytes=2-4"); got.status != 206 || got.body != "234" {
		t.Errorf("%+v", got)
	}
	stat := ask(t, "POST", base+"/filesystem.Filesystem/Stat", strings.NewReader(`{"path":"/f"}`), "Content-Type", "application/json")
	if stat.status != 200 || strings.Contains(up.body, "origin") && !strings.Contains(stat.body, `"origin":"test"`) {
		t.Errorf("%+v after %+v", stat, up)
	}
}

func TestWatcherCalls(t *testing.T) {
	base, root := web(t, "")
	call := func(method, body string) (got struct {
		WatcherID string `json:"watcherId"`
		Events    []struct{ Name, Type string }
		Code      string
	}) {
		t.Helper()
		res := ask(t, "POST", base+"/filesystem.Filesystem/"+method, strings.NewReader(body), "Content-Type", "application/json")
		if err := json.Unmarshal([]byte(res.body), &got); err != nil {
			t.Fatalf("%s: %+v", method, res)
		}
		return got
	}
	id := `{"watcherId":"` + call("CreateWatcher", `{"path":"/","recursive":true}`).WatcherID + `"}`
	if err := os.WriteFile(filepath.Join(root, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the event", func() bool {
		events := call("GetWatcherEvents", id).Events
		return len(events) > 0 && events[0].Name == "f" && events[0].Type == "EVENT_TYPE_CREATE"
	})
	call("RemoveWatcher", id)
	if got := call("GetWatcherEvents", id); got.Code != "not_found" {
		t.Errorf("%+v", got)
	}
}

func TestWatchersAreBounded(t *testing.T) {
	base, _ := web(t, "")
	var last answer
	for range 300 {
		last = ask(t, "POST", base+"/filesystem.Filesystem/CreateWatcher", strings.NewReader(`{"path":"/"}`), "Content-Type", "application/json")
		if last.status != 200 {
			break
		}
	}
	if !strings.Contains(last.body, "resource_exhausted") {
		t.Errorf("%+v", last)
	}
}

// TestHTTP2 speaks to a service the other way that it is promised to know.
func TestHTTP2(t *testing.T) {
	backend, err := local.New("/", "")
	if err != nil {
		t.Fatal(err)
	}
	service, err := guest.New(backend, guest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	dial := dialer(service)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}
	res, err := client.Get("http://guest/health")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", res.Proto, res.Status)
	}
}
