package image

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"aether/sandbox"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// startRegistry serves a real registry on loopback; each request passes before.
func startRegistry(t *testing.T, before func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if before == nil || before(w, r) {
			real.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func push(t *testing.T, ref string, img v1.Image) {
	t.Helper()
	tag, err := name.ParseReference(ref)
	check(t, err)
	check(t, remote.Write(tag, img))
}

func TestResolveRegistry(t *testing.T) {
	var requests atomic.Int64
	host := startRegistry(t, func(http.ResponseWriter, *http.Request) bool { requests.Add(1); return true })
	ref, img, s := host+"/team/app:v1", sampleImage(t), openStore(t)
	push(t, ref, img)
	root := resolve(t, s, ref)
	wantSample(t, root)
	digest, err := img.Digest()
	check(t, err)
	if root.Digest != digest.String() {
		t.Errorf("digest %s, want %v", root.Digest, digest)
	}
	asked := requests.Load()
	wantSample(t, resolve(t, s, ref))
	if requests.Load() != asked {
		t.Error("the registry was asked again")
	}
	wantSample(t, resolve(t, s, host+"/team/app@"+digest.String()))
}

// TestMissingLayerIsFetchedAgain: a record is only as good as its layers.
func TestMissingLayerIsFetchedAgain(t *testing.T) {
	ref, s := startRegistry(t, nil)+"/a:v1", openStore(t)
	push(t, ref, sampleImage(t))
	check(t, os.RemoveAll(resolve(t, s, ref).Layers[0]))
	wantSample(t, resolve(t, s, ref))
}

func TestRegistryPicksThePlatform(t *testing.T) {
	host := startRegistry(t, nil)
	ref, err := name.ParseReference(host + "/many:v1")
	check(t, err)
	other := imageOf(t, tarOf(t, file("other", "")))
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: sampleImage(t), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	check(t, remote.WriteIndex(ref, index))
	wantSample(t, resolve(t, openStore(t), ref.String()))
}

func TestRegistryFailures(t *testing.T) {
	answer := func(code int) string {
		return startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/v2/") {
				return true
			}
			w.WriteHeader(code)
			return false
		})
	}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	check(t, closed.Close())
	s := openStore(t)
	for _, c := range []struct {
		ref   string
		want  sandbox.Class
		retry bool
	}{
		{startRegistry(t, nil) + "/none:v1", sandbox.NotFound, false},
		{answer(http.StatusUnauthorized) + "/a:v1", sandbox.Denied, false},
		{answer(http.StatusForbidden) + "/a:v1", sandbox.Denied, false},
		{answer(http.StatusTooManyRequests) + "/a:v1", sandbox.Unavailable, true},
		{closed.Addr().String() + "/a:v1", sandbox.Unavailable, true},
	} {
		_, err := s.Resolve(t.Context(), c.ref, nil)
		wantClass(t, err, c.want)
		var typed *sandbox.Error
		if errors.As(err, &typed); typed.Retry != c.retry {
			t.Errorf("retry %v: %v", typed.Retry, err)
		}
	}
}

// TestBrokenDownload: a connection that breaks is not the image's fault, content
// that differs is.
func TestBrokenDownload(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(http.ResponseWriter, int64)
		want  sandbox.Class
	}{
		"cut": {func(w http.ResponseWriter, size int64) {
			w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
			w.Write([]byte("short"))
		}, sandbox.Unavailable},
		"changed": {func(w http.ResponseWriter, size int64) { w.Write([]byte(strings.Repeat("x", int(size)))) }, sandbox.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			var spoiled atomic.Bool
			img := sampleImage(t)
			layers, err := img.Layers()
			check(t, err)
			digest, err := layers[0].Digest()
			check(t, err)
			size, err := layers[0].Size()
			check(t, err)
			host := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
				if !spoiled.Load() || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, digest.String()) {
					return true
				}
				c.spoil(w, size)
				return false
			})
			push(t, host+"/a:v1", img)
			spoiled.Store(true)
			s := openStore(t)
			_, err = s.Resolve(t.Context(), host+"/a:v1", nil)
			wantClass(t, err, c.want)
			wantNothingLeft(t, s)
			spoiled.Store(false)
			wantSample(t, resolve(t, s, host+"/a:v1"))
		})
	}
}

func TestCancelledDownload(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var started atomic.Bool
	host := startRegistry(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if started.Load() && strings.Contains(r.URL.Path, "/blobs/") {
			cancel()
		}
		return true
	})
	push(t, host+"/a:v1", sampleImage(t))
	started.Store(true)
	s := openStore(t)
	if _, err := s.Resolve(ctx, host+"/a:v1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wantNothingLeft(t, s)
}

func TestPlainHTTPStaysHere(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://localhost:1/v2/": true, "http://127.0.0.1:1/v2/": true, "http://[::1]:1/v2/": true,
		"http://10.0.0.1:1/v2/": false, "http://registry.local/v2/": false, "http://localhost.example.com/v2/": false,
		"https://10.0.0.1:1/v2/": true,
	} {
		next := &recorder{}
		request, err := http.NewRequest(http.MethodGet, url, nil)
		check(t, err)
		_, err = httpsOnly{next}.RoundTrip(request)
		if next.called != ok || (err == nil) != ok {
			t.Errorf("%s: sent %v, error %v", url, next.called, err)
		}
	}
}

type recorder struct{ called bool }

func (r *recorder) RoundTrip(*http.Request) (*http.Response, error) {
	r.called = true
	return &http.Response{Body: http.NoBody}, nil
}
