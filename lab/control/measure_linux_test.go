package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/driver/all"
	"aether/lab/labtest"
	"aether/lab/run"
	"aether/profile"
)

// TestMeasure goes through the rubric with real engines.
func TestMeasure(t *testing.T) {
	systems := labtest.Systems(t)
	store := labtest.Store(t, systems)
	if err := Measure(t.Context(), systems, Options{Budget: 5 * time.Minute, Dir: t.TempDir()}, store); err != nil {
		t.Fatal(err)
	}
	for _, s := range systems {
		a := labtest.Axis(t, store, s.Name, profile.AgentControl)
		if a.Score == nil || len(a.Facts) != 2*len(Facts) {
			t.Fatalf("%s: %+v", s.Name, a)
		}
		for _, f := range a.Facts {
			t.Logf("%s: %s by %s: %v: %s", s.Name, f.Fact, f.By, f.Holds, f.Proof)
			// Through Aether, everything works but for what the driver cannot do.
			want := f.By == run.Through && (f.Fact != Fork || labtest.Forks(s))
			if f.By == run.Native {
				want = s.Name == "cell" && (f.Fact != Fork || labtest.Forks(s)) || f.Fact == Create || f.Fact == Policy
			}
			if f.Holds != want {
				t.Errorf("%s: %s by %s is %v: %s", s.Name, f.Fact, f.By, f.Holds, f.Proof)
			}
		}
	}
}

// TestNatives calls the own interfaces of those systems that are here.
func TestNatives(t *testing.T) {
	programs := map[string]string{"bubblewrap": "bwrap", "gvisor": "runsc", "lxc": "lxc-attach", "qemu-kvm": "qemu-system-x86_64", "containerd": "ctr"}
	for name, call := range natives {
		if slices.Contains([]string{"docker", "incus", "cloud-hypervisor", "kata"}, name) {
			continue // which need a daemon, or KVM, and TestAPI has their kind; or are containerd's
		}
		program := name
		if other, ok := programs[name]; ok {
			program = other
		}
		if _, err := exec.LookPath(program); errors.Is(err, exec.ErrNotFound) {
			t.Logf("without %s: %v", name, err)
			continue
		}
		found, err := call(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found[Create] = shown{true, "by its driver"}
		if without := missing(found); len(without) > 0 {
			t.Errorf("%s: nothing is shown of %v", name, without)
		}
		t.Logf("%s: %+v", name, found)
	}
}

// TestEverySystemHasANative: whatever driver this build has, something calls its system.
func TestEverySystemHasANative(t *testing.T) {
	for _, m := range all.Makers() {
		// The interfaces of these two are Aether's.
		if _, ok := natives[m.Name]; !ok && !slices.Contains(aethers, m.Name) {
			t.Errorf("nothing calls the own interface of %s", m.Name)
		}
	}
}

// TestAPI tells verbs from what is none by how a daemon answers, in the ways of Docker, of
// Incus and of Firecracker.
func TestAPI(t *testing.T) {
	for name, no := range map[string]func(http.ResponseWriter, *http.Request){
		"docker": func(w http.ResponseWriter, r *http.Request) { http.Error(w, `{"message":"page not found"}`, 404) },
		"incus": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":"not found","error_code":404}`, 404)
		},
		"firecracker": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, fmt.Sprintf(`{"fault_message":"Invalid request method and/or path: %s %s."}`, r.Method, strings.TrimPrefix(r.URL.Path, "/")), 400)
		},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc("/", no)
		mux.HandleFunc("POST /one/exec", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"message":"there is no such container"}`, 404)
		})
		mux.HandleFunc("GET /events", func(w http.ResponseWriter, _ *http.Request) {})
		mux.HandleFunc("POST /one/update", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "a crash", 500) })
		socket := filepath.Join(t.TempDir(), "socket")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: mux}
		go server.Serve(listener)
		defer server.Close()
		a := api{socket: socket, none: call{"POST", "/one/no-such-verb", "{}"}, failure: call{"POST", "/one/exec", "{}"},
			calls: map[string]call{Exec: {"POST", "/one/exec", "{}"}, Fork: {"POST", "/one/fork", "{}"}, Events: {"GET", "/events", ""}, Policy: {"POST", "/one/update", "{}"}}}
		found, err := a.find(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for fact, want := range map[string]bool{Exec: true, Fork: false, Events: true, Policy: false, Errors: true, Files: false} {
			if found[fact].holds != want {
				t.Errorf("%s: %s is %v: %s", name, fact, found[fact].holds, found[fact].proof)
			}
		}
	}
	if _, err := (api{socket: filepath.Join(t.TempDir(), "none")}).find(t.Context()); err == nil {
		t.Error("nobody answers, and no error")
	}
	if _, err := monitor(t.Context(), func(string) []string { return []string{"false"} }, api{}); !errors.Is(err, errNoSocket) {
		t.Errorf("a monitor that ends at once: %v", err)
	}
}

func TestReadQMP(t *testing.T) {
	quits := 0
	quit := func() error { quits++; return nil }
	found, err := readQMP(bytes.NewBufferString(`{"QMP":{}}{"id":"schema","return":[{},{}]}{"id":"commands","return":[{"name":"migrate"}]}
{"id":"failure","error":{"class":"CommandNotFound"}}{"event":"SHUTDOWN"}`), quit)
	if err != nil || quits != 1 || !found[Snapshot].holds || found[Exec].holds || !found[Errors].holds || !found[Events].holds || !found[Schema].holds {
		t.Errorf("%+v, %v", found, err)
	}
	for _, bad := range []string{"", "x", `{"id":"schema","return":1}`} {
		if _, err := readQMP(bytes.NewBufferString(bad), quit); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestOutputIsBounded(t *testing.T) {
	said, err := output(t.Context(), "sh", "-c", "yes | head -c 1000000")
	if err != nil || len(said) != maxOutput {
		t.Errorf("%d bytes, %v", len(said), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := output(ctx, "sleep", "60"); err == nil {
		t.Error("it goes on")
	}
}
