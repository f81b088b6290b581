package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"aether/image"
	"aether/internal/host/pty"
	"aether/sandbox"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// fetcher is a driver that fetches its image as every driver does and then has
// no sandbox to give: the command line may not import a real one.
type fetcher struct {
	sandbox.Driver
	store *image.Store
}

func (fetcher) Info() sandbox.Info {
	return sandbox.Info{Name: "cell", Boundary: sandbox.ProcessBoundary}
}

func (f fetcher) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Instance, error) {
	if _, err := f.store.Resolve(ctx, spec.Image, nil); err != nil {
		return nil, err
	}
	return nil, &sandbox.Error{Class: sandbox.Conflict, Reason: "the image is there"}
}

func (f fetcher) Explain(ctx context.Context, w io.Writer, spec sandbox.Spec, _ []string) error {
	if _, err := f.store.Resolve(ctx, spec.Image, nil); err != nil {
		return err
	}
	_, err := io.WriteString(w, "the set-up\n")
	return err
}

func newFetcher(t *testing.T) []sandbox.Driver {
	t.Helper()
	store, err := image.Open(filepath.Join(t.TempDir(), "images"))
	check(t, err)
	return []sandbox.Driver{fetcher{store: store}}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startRegistry serves a real registry with an image of one layer of about 2
// MiB, in pieces with so long a pause after each.
func startRegistry(t *testing.T, pause time.Duration) (ref string) {
	t.Helper()
	var pushed atomic.Bool
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if pushed.Load() && strings.Contains(r.URL.Path, "/blobs/") {
			w = slowWriter{w, pause}
		}
		real.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ref = strings.TrimPrefix(server.URL, "http://") + "/slow:v1"
	tag, err := name.ParseReference(ref)
	check(t, err)
	check(t, remote.Write(tag, noiseImage(t)))
	pushed.Store(true)
	return ref
}

func noiseImage(t *testing.T) v1.Image {
	t.Helper()
	noise := make([]byte, 2<<20) // does not compress
	rand.Read(noise)
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	check(t, w.WriteHeader(&tar.Header{Name: "noise", Mode: 0o644, Size: int64(len(noise))}))
	_, err := w.Write(noise)
	check(t, err)
	check(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil })
	check(t, err)
	img, err := mutate.AppendLayers(empty.Image, layer)
	check(t, err)
	config, err := img.ConfigFile()
	check(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	img, err = mutate.ConfigFile(img, config)
	check(t, err)
	return img
}

// slowWriter sends an eighth of a MiB at a time.
type slowWriter struct {
	http.ResponseWriter
	pause time.Duration
}

func (w slowWriter) Write(p []byte) (sent int, err error) {
	for len(p) > 0 && err == nil {
		var n int
		n, err = w.ResponseWriter.Write(p[:min(len(p), 128<<10)])
		sent, p = sent+n, p[n:]
		if err == nil {
			err = http.NewResponseController(w.ResponseWriter).Flush()
		}
		time.Sleep(w.pause)
	}
	return sent, err
}

// onTerminal runs the command with a terminal as standard error, and gives all
// that was written there.
func onTerminal(t *testing.T, drivers []sandbox.Driver, stdout io.Writer, args ...string) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this host has no terminals: %v", err)
	}
	defer master.Close()
	slave, err := pty.Open(master)
	check(t, err)
	check(t, pty.SetSize(master, 72, 24))
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // ends with an error when the other end is closed
		read <- string(text)
	}()
	Main(t.Context(), args, strings.NewReader(""), stdout, slave, makers(drivers))
	check(t, slave.Close())
	return <-read
}

// shown splits what a terminal got into what each carriage return began.
func shown(terminal string) []string {
	return strings.Split(strings.ReplaceAll(terminal, "\r\n", "\n"), "\r")
}

// shownAfter sets how long a test's image may take before its progress is shown.
func shownAfter(t *testing.T, d time.Duration) {
	was := patience
	patience = d
	t.Cleanup(func() { patience = was })
}

// slowly is so long a pause that much is shown of an image.
const slowly = 60 * time.Millisecond

func TestProgressOnATerminal(t *testing.T) {
	shownAfter(t, 2*redraw)
	ref := startRegistry(t, slowly)
	lines := shown(onTerminal(t, newFetcher(t), io.Discard, "run", "--image", ref, "--", "true"))
	if lines[0] != "" || len(lines) < 3 {
		t.Fatalf("the terminal shows %q", lines)
	}
	drawing := regexp.MustCompile(`^aether: preparing the image: [01] of 1 layers, ([0-2]\.[0-9]) of 2\.0 MiB *$`)
	amounts := map[string]bool{}
	for _, line := range lines[1:max(1, len(lines)-2)] {
		if len(amounts) == 0 && line == progressText(image.Progress{}) {
			continue // the registry, which is as slow as the host is, has not answered yet
		}
		match := drawing.FindStringSubmatch(line)
		if match == nil || len(line) >= 72 {
			t.Errorf("drawn %q", line)
			continue
		}
		amounts[match[1]] = true
	}
	if len(amounts) < 3 {
		t.Errorf("the only amounts of bytes were %v", amounts)
	}
	if blank := lines[len(lines)-2]; strings.Trim(blank, " ") != "" {
		t.Errorf("the line ends as %q", blank)
	}
	if last := lines[len(lines)-1]; last != "aether: the image is there\n" {
		t.Errorf("then %q", last)
	}
}

func TestProgressBeforeTheSetUpIsExplained(t *testing.T) {
	shownAfter(t, 2*redraw)
	ref := startRegistry(t, slowly)
	var stdout bytes.Buffer
	lines := shown(onTerminal(t, newFetcher(t), &stdout, "run", "--explain", "--image", ref, "--", "true"))
	if len(lines) < 4 || lines[len(lines)-1] != "" {
		t.Errorf("drawn %q", lines)
	}
	if stdout.String() != "the set-up\n" {
		t.Errorf("explained %q", stdout.String())
	}
}

// TestNoProgress is for those who would not read it: the patient, programs, files.
func TestNoProgress(t *testing.T) {
	const says = "aether: the image is there\n"
	shownAfter(t, 2*redraw)
	slow := startRegistry(t, slowly)
	t.Run("quick", func(t *testing.T) {
		shownAfter(t, time.Hour)
		if got := shown(onTerminal(t, newFetcher(t), io.Discard, "run", "--image", startRegistry(t, 0), "--", "true")); len(got) != 1 || got[0] != says {
			t.Errorf("the terminal shows %q", got)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		if got := shown(onTerminal(t, newFetcher(t), io.Discard, "run", "--json", "--image", slow, "--", "true")); len(got) != 1 || got[0] != says {
			t.Errorf("the terminal shows %q", got)
		}
	})
	t.Run("no terminal", func(t *testing.T) {
		if got := run(t, newFetcher(t), "run", "--image", slow, "--", "true"); got.stderr != says {
			t.Errorf("stderr is %q", got.stderr)
		}
	})
}

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		progress image.Progress
		want     string
	}{
		{image.Progress{}, "aether: asking for the image"},
		{image.Progress{Ready: 1, Layers: 3, Done: 512, Total: 2048}, "aether: preparing the image: 1 of 3 layers, 0.5 of 2.0 KiB"},
		{image.Progress{Ready: 2, Layers: 3, Done: 3 << 20, Total: 45 << 20}, "aether: preparing the image: 2 of 3 layers, 3.0 of 45.0 MiB"},
		{image.Progress{Ready: 2, Layers: 3, Done: 3 << 29, Total: 3 << 30}, "aether: preparing the image: 2 of 3 layers, 1.5 of 3.0 GiB"},
	} {
		if got := progressText(c.progress); got != c.want {
			t.Errorf("%+v: %q, want %q", c.progress, got, c.want)
		}
	}
}

// TestProgressLineIsReplaced: a shorter text leaves nothing of a longer one, and
// a narrow terminal is never written past its last column but one.
func TestProgressLineIsReplaced(t *testing.T) {
	var out strings.Builder
	line := &progressLine{to: &out, width: 8}
	for _, text := range []string{"", "0123456789", "abc", "", ""} {
		line.draw(text)
	}
	if got, want := out.String(), "\r0123456\rabc    \r   \r"; got != want {
		t.Errorf("drawn %q, want %q", got, want)
	}
}

func TestAskingText(t *testing.T) {
	for want, names := range map[string][]string{
		"aether: asking which hosts are used: pip, npm":    {"pip", "npm"},
		`aether: asking which hosts are used: \x1b[2Jx:1`:  {"\x1b[2Jx:1"},
		"aether: looking where the hosts of the lists are": nil,
	} {
		if got := askingText(names); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
