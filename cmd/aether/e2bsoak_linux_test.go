package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/engine"
	"aether/guest"
	"aether/internal/soak"
	"aether/rest"
)

// streamGrowth is how much more memory a daemon may have while it carries streams of any
// length; crowdBase and crowdGrowth how much more after a crowd, and for each sandbox of it.
// With the race detector, which keeps a history of memory, it is 93 MiB for 50.
const (
	streamGrowth = 64 << 20
	crowdBase    = 128 << 20
	crowdGrowth  = 128 << 10
)

// TestE2BStreams: what commands write and files, both ways, go through the daemon by its E2B
// door without staying in its memory.
func TestE2BStreams(t *testing.T) {
	setGateway(t)
	size := int64(soak.Count(100, 1000)) * 1_000_000
	state := t.TempDir()
	s := serve(t, state, "--config", tenantsFile(t, `{"default_limits": {"memory_bytes": 536870912, "disk_bytes": 4294967296, "disk_backed": true}}`))
	box := newE2BBox(t, s, newKey(t, state, "--tenant", "acme"))
	inside := guest.NewClientOver(box, guest.ClientOptions{AccessToken: box.token, User: "user"})
	defer inside.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	sent := sha256.New()
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"a command's output", func() error { return readCommand(ctx, inside, size) }},
		{"a file there", func() error {
			return inside.Write(ctx, "/home/user/long", io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{}), size), sent))
		}},
		{"a file back", func() error { return readFile(ctx, inside, size, sent) }},
	} {
		before := s.residentPeak(t)
		began := time.Now()
		if err := step.run(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		grown := s.memory(t, "VmHWM") - before
		t.Logf("%s: %d bytes in %v, and the daemon grows by %d KiB", step.name, size, time.Since(began).Round(time.Millisecond), grown>>10)
		if grown > streamGrowth {
			t.Errorf("%s: the daemon grows by %d MiB", step.name, grown>>20)
		}
	}
}

func readCommand(ctx context.Context, inside *guest.Client, size int64) error {
	var got counter
	running, err := inside.Start(ctx, guest.Cmd{Path: "head", Args: []string{"-c", fmt.Sprint(size), "/dev/zero"}, Stdout: &got})
	if err != nil {
		return err
	}
	status, err := running.Wait()
	if err != nil || status.Code != 0 || int64(got) != size {
		return fmt.Errorf("%d bytes, %+v, %w", got, status, err)
	}
	return nil
}

// counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func readFile(ctx context.Context, inside *guest.Client, size int64, sent hash.Hash) error {
	file, err := inside.Read(ctx, "/home/user/long")
	if err != nil {
		return err
	}
	defer file.Close()
	got := sha256.New()
	if n, err := io.Copy(got, file); err != nil || n != size || !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
		return fmt.Errorf("%d bytes, which are not those that were sent: %w", n, err)
	}
	return nil
}

// TestE2BCrowd: fifty of E2B's clients, each with a key and a tenant of its own, have their
// sandboxes at once, and nothing is left of them.
func TestE2BCrowd(t *testing.T) {
	const clients = 50
	count := max(1, soak.Count(clients, 500)/clients)
	setGateway(t)
	home := installE2B(t)
	s := serve(t, t.TempDir())
	var keys []string
	for i := range clients {
		made, err := s.client().CreateKey(t.Context(), rest.KeyRequest{Tenant: fmt.Sprint("tenant", i)})
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, made.Secret)
	}
	before := s.residentPeak(t)
	url := "http://" + s.address
	results := runE2B(t, home, "FILES=crowd", "SECONDS=200", "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "KEYS="+strings.Join(keys, " "), fmt.Sprint("COUNT=", count))
	if len(results) != 1 || results[0].Error != "" {
		t.Fatalf("%+v", results)
	}
	grown := s.memory(t, "VmRSS") - before
	t.Logf("%d sandboxes in %d ms, and the daemon has %d KiB more afterwards", clients*count, results[0].MS, grown>>10)
	if grown > crowdBase+int64(clients*count)*crowdGrowth {
		t.Errorf("the daemon has %d MiB more", grown>>20)
	}
	list, err := s.client().List(t.Context(), engine.Query{States: []engine.State{engine.Running, engine.Paused}})
	if err != nil || len(list.Sandboxes) > 0 {
		t.Errorf("%d sandboxes are left, %v", len(list.Sandboxes), err)
	}
}

// e2bBox is a sandbox by the E2B door, which carries requests to its guest service.
type e2bBox struct{ url, id, token string }

func newE2BBox(t *testing.T, s *service, key string) *e2bBox {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/v2/sandboxes", strings.NewReader(`{"timeout": 3600}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-API-Key", key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var made struct{ SandboxID, EnvdAccessToken string }
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %+v, %v", answer.Status, made, err)
	}
	return &e2bBox{s.address, made.SandboxID, made.EnvdAccessToken}
}

// RoundTrip implements http.RoundTripper.
func (b *e2bBox) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Host = b.url
	r.Header.Set("E2b-Sandbox-Id", b.id)
	r.Header.Set("E2b-Sandbox-Port", "49983")
	return http.DefaultTransport.RoundTrip(r)
}

// residentPeak has the daemon's peak of memory begin anew, and gives what it has now.
func (s *service) residentPeak(t *testing.T) int64 {
	t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	return s.memory(t, "VmRSS")
}

// memory reads a line of the daemon's status that is about memory.
func (s *service) memory(t *testing.T, name string) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("no %s in %s", name, text)
	return 0
}

// tenantsFile is a configuration whose tenants all have a policy.
func tenantsFile(t *testing.T, policy string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tenants.json")
	if err := os.WriteFile(file, []byte(`{"default": {"policy": `+policy+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
