package rest_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"aether/engine"
	"aether/guest"
	"aether/rest"
	"aether/sandbox"
)

// TestKeys: whoever is unknown is told nothing but that, and the audit trail has it.
func TestKeys(t *testing.T) {
	d := open(t, rest.Limits{})
	for name, key := range map[string]string{"none": "", "wrong": "e2b_wrong", "expired": expiredKey, "long": strings.Repeat("x", 5000)} {
		got := d.send(t, "GET", "/v1/sandboxes", key, "")
		if got.status != 401 || got.header.Get("WWW-Authenticate") == "" || !strings.Contains(got.body, `"denied"`) || key != "" && strings.Contains(got.body, key) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, header := range map[string][]string{"header": {"X-API-Key", annsKey}, "bearer": {"Authorization", "Bearer " + annsKey}} {
		if got := d.send(t, "GET", "/v1/sandboxes", "", "", header...); got.status != 200 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	eventually(t, func() bool { return len(d.audited()) == 6 })
	calls := d.audited()
	refused := slices.DeleteFunc(slices.Clone(calls), func(c rest.Call) bool { return c.Status != 401 })
	if len(refused) != 4 || refused[0].Operation != "sandbox.list" || sandbox.ClassOf(refused[0].Err) != sandbox.Denied || refused[0].From == "" {
		t.Errorf("the audit trail has %+v", refused)
	}
	for _, good := range slices.DeleteFunc(calls, func(c rest.Call) bool { return c.Status == 401 }) {
		if good.Who.Name != "ann-1" || good.Status != 200 || good.Took <= 0 || good.Err != nil {
			t.Errorf("the audit trail has %+v", good)
		}
	}
	if got := d.send(t, "GET", "/health", "", ""); got.status != 204 {
		t.Errorf("health: %+v", got)
	}
	if got := d.send(t, "GET", "/nowhere", "", ""); got.status != 401 {
		t.Errorf("strangers learn which paths there are: %+v", got)
	}
}

// TestWrongKeysInNumbers: many are refused with a time to wait, and others are not.
func TestWrongKeysInNumbers(t *testing.T) {
	d := open(t, rest.Limits{})
	const count = 2000 // which no host takes so long for that all of them may be answered
	conn := d.dial(t)
	go io.WriteString(conn, strings.Repeat("GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-Key: e2b_wrong\r\n\r\n", count)) // which ends with the connection
	answers, statuses := bufio.NewReader(conn), []int{}
	for len(statuses) < count && !slices.Contains(statuses, 429) {
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		if statuses = append(statuses, res.StatusCode); res.StatusCode == 429 && res.Header.Get("Retry-After") != "1" {
			t.Errorf("it is told to wait for %q", res.Header.Get("Retry-After"))
		}
	}
	if n := len(statuses) - 1; n < 50 || statuses[n] != 429 || slices.ContainsFunc(statuses[:n], func(s int) bool { return s != 401 }) {
		t.Errorf("many wrong keys: %v", statuses)
	}
	if got := d.send(t, "GET", "/v1/sandboxes", annsKey, ""); got.status != 200 {
		t.Errorf("a good key from there: %+v", got)
	}
}

// TestTenantsAreApart: what is another's is as if it did not exist, on every route.
func TestTenantsAreApart(t *testing.T) {
	d := open(t, rest.Limits{})
	ann, bob, ops := d.client(t, d.http, annsKey), d.client(t, d.http, bobsKey), d.client(t, d.http, operatorKey)
	made, err := ann.Create(t.Context(), engine.CreateRequest{})
	if err != nil || made.Tenant != "ann" {
		t.Fatal(made, err)
	}
	// A connection that was opened for its owner is not for others.
	file, err := ann.GuestOf(made.ID, guest.ClientOptions{}).Read(t.Context(), "/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, file) // to its end, so that the connection is kept
	file.Close()
	for _, path := range []string{"GET ", "DELETE ", "PATCH ", "POST /pause", "POST /resume", "POST /fork", "POST /exec", "GET /stats", "GET /guest/health", "POST /guest/process.Process/List"} {
		method, of, _ := strings.Cut(path, " ")
		body := map[string]string{"PATCH ": `{"metadata":{}}`, "POST /exec": `{"command":["true"]}`}[path]
		theirs := d.send(t, method, "/v1/sandboxes/"+made.ID+of, bobsKey, body)
		none := d.send(t, method, "/v1/sandboxes/s99999"+of, bobsKey, body)
		if theirs.status != 404 || strings.ReplaceAll(theirs.body, made.ID, "s99999") != none.body {
			t.Errorf("%s: %+v, of one that does not exist %+v", path, theirs, none)
		}
	}
	if page, err := bob.List(t.Context(), engine.Query{}); err != nil || len(page.Sandboxes) != 0 {
		t.Errorf("bob lists %+v, %v", page, err)
	}
	if page, err := ops.List(t.Context(), engine.Query{}); err != nil || len(page.Sandboxes) != 1 {
		t.Errorf("the operator lists %+v, %v", page, err)
	}
	if got := d.send(t, "GET", "/metrics", annsKey, ""); got.status != 403 {
		t.Errorf("metrics for a tenant: %+v", got)
	}
}

// TestOddIDs: what cannot be an id is no sandbox, whatever it would lead to.
func TestOddIDs(t *testing.T) {
	d := open(t, rest.Limits{})
	c := d.local(t)
	for _, id := range []string{"", ".", "..", "../events", "a/b", "a%2fb", "A", "-", "ä", strings.Repeat("a", 65), "a?b", "a#b"} {
		_, err := c.Get(t.Context(), id)
		wantClass(t, err, sandbox.NotFound)
	}
	for _, id := range []string{"%2e%2e", "a%2fb", "%00", "a%20b"} {
		if got := d.send(t, "GET", "/v1/sandboxes/"+id, annsKey, ""); got.status != 404 {
			t.Errorf("%s: %+v", id, got)
		}
	}
}

// TestInsecure: without keys, only programs of this host are answered.
func TestInsecure(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0"} {
		_, err := rest.ListenInsecure(t.Context(), address)
		wantClass(t, err, sandbox.Denied)
		_, err = rest.ListenTCP(t.Context(), address, nil)
		wantClass(t, err, sandbox.Denied)
	}
	d := open(t, rest.Limits{})
	l, err := rest.ListenInsecure(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.http = "http://" + d.serve(t, l)
	if got := d.send(t, "GET", "/v1/sandboxes", "", ""); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if got := d.send(t, "GET", "/v1/sandboxes", "", "", "Host", "evil.example"); got.status != 403 {
		t.Errorf("by another name: %+v", got)
	}
	if got := d.send(t, "POST", "/v1/sandboxes", "", "", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"); got.status != 403 {
		t.Errorf("by a page of another site: %+v", got)
	}
	if got := d.send(t, "POST", "/v1/sandboxes", "", "{}", "Content-Type", "text/plain"); got.status != 415 {
		t.Errorf("by a form: %+v", got)
	}
	if got := d.send(t, "GET", "/v1/sandboxes", "e2b_wrong", ""); got.status != 401 {
		t.Errorf("with a wrong key: %+v", got)
	}
}

// connectTo has the test's own program ask at a socket, as another user.
const connectTo = "AETHER_TEST_CONNECT"

func init() {
	socket := os.Getenv(connectTo)
	if socket == "" {
		return
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(0)
	}
	io.WriteString(conn, "GET /v1/sandboxes HTTP/1.1\r\nHost: aether\r\nConnection: close\r\n\r\n")
	io.Copy(os.Stdout, conn)
	os.Exit(0)
}

// TestSocketIsForItsUser: nobody else gets a word, even where the file would let them.
func TestSocketIsForItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	d := open(t, rest.Limits{})
	if info, err := os.Stat(d.socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	dir, err := os.MkdirTemp("/tmp", "aether-rest-socket-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self := copySelf(t, dir)
	socket := filepath.Join(dir, "s")
	l, err := rest.ListenUnix(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	d.serve(t, l)
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := connectAs(t, self, socket, 0); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("root is told %q", got)
	}
	if got := connectAs(t, self, socket, 65534); strings.HasPrefix(got, "HTTP") {
		t.Errorf("somebody else is told %q", got)
	}
	if got := connectAs(t, self, socket, 0); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("afterwards root is told %q", got)
	}
}

func copySelf(t *testing.T, dir string) string {
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "self")
	if err := os.WriteFile(name, text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func connectAs(t *testing.T, program, socket string, uid uint32) string {
	cmd := exec.Command(program)
	cmd.Env = []string{connectTo + "=" + socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestSockets: one that a dead program left is replaced, one that lives is not.
func TestSockets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := rest.ListenUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = rest.ListenUnix(t.Context(), path)
	wantClass(t, err, sandbox.Conflict)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = rest.ListenUnix(t.Context(), file)
	wantClass(t, err, sandbox.Conflict)
}

// TestClientKeepsItsKey: it is not sent where others could read it, nor wherever the
// daemon points.
func TestClientKeepsItsKey(t *testing.T) {
	_, err := rest.NewClient(rest.ClientOptions{URL: "http://sandboxes.example", Key: annsKey})
	wantClass(t, err, sandbox.Denied)
	for _, url := range []string{"", "ftp://x", "unix://", "https://", "sandboxes.example"} {
		_, err := rest.NewClient(rest.ClientOptions{URL: url})
		wantClass(t, err, sandbox.Invalid)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})}
	go server.Serve(l)
	defer server.Close()
	c, err := rest.NewClient(rest.ClientOptions{URL: "http://" + l.Addr().String(), Key: annsKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(t.Context(), "a"); err == nil || asked != 1 {
		t.Errorf("it asked %d times, %v", asked, err)
	}
}
