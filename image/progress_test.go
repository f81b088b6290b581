package image

import (
	"context"
	"crypto/rand"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// progressOf keeps every report, and holds each to going on from the last.
type progressOf struct {
	t    *testing.T
	seen []Progress
}

func (o *progressOf) observe(p Progress) {
	if len(o.seen) > 0 {
		last := o.seen[len(o.seen)-1]
		known := last.Layers > 0
		if p.Done < last.Done || p.Ready < last.Ready || p.Done > p.Total || p.Ready > p.Layers ||
			known && (p.Layers != last.Layers || p.Total != last.Total) {
			o.t.Errorf("%+v after %+v", p, last)
		}
	}
	o.seen = append(o.seen, p)
}

func (o *progressOf) wantEnd(layers int, total int64) {
	o.t.Helper()
	if len(o.seen) == 0 {
		o.t.Fatal("nothing was reported")
	}
	if got, want := o.seen[len(o.seen)-1], (Progress{layers, layers, total, total}); got != want {
		o.t.Errorf("ended with %+v, want %+v", got, want)
	}
}

// bytesOf is what the stored forms of an image's layers have together.
func bytesOf(t *testing.T, layers ...v1.Layer) (total int64) {
	t.Helper()
	for _, l := range layers {
		size, err := l.Size()
		check(t, err)
		total += size
	}
	return total
}

func layersOf(t *testing.T, img v1.Image) []v1.Layer {
	t.Helper()
	layers, err := img.Layers()
	check(t, err)
	return layers
}

func TestProgress(t *testing.T) {
	img := sampleImage(t)
	dir, s, got := writeLayout(t, map[string]v1.Image{"": img}), openStore(t), &progressOf{t: t}
	root, err := s.Resolve(t.Context(), dir, got.observe)
	check(t, err)
	got.wantEnd(2, bytesOf(t, layersOf(t, img)...))
	if first := got.seen[0]; first.Ready != 0 || first.Done != 0 {
		t.Errorf("began with %+v", first)
	}

	again := &progressOf{t: t}
	_, err = s.Resolve(t.Context(), dir, again.observe)
	check(t, err)
	if len(again.seen) > 0 {
		t.Errorf("a stored image reports %+v", again.seen)
	}
	wantSample(t, root)
}

// TestProgressCountsWhatIsLacking: a layer that is stored, or stands in the image
// twice, is no work.
func TestProgressCountsWhatIsLacking(t *testing.T) {
	shared, own := tarOf(t, file("shared", "a")), tarOf(t, file("own", "b"))
	first, second := imageOf(t, shared), imageOf(t, shared, own, own)
	dir, s, got := writeLayout(t, map[string]v1.Image{"first": first, "second": second}), openStore(t), &progressOf{t: t}
	resolve(t, s, dir+":first")
	_, err := s.Resolve(t.Context(), dir+":second", got.observe)
	check(t, err)
	if first := got.seen[0]; first.Ready != 1 {
		t.Errorf("began with %+v", first)
	}
	got.wantEnd(2, bytesOf(t, layersOf(t, second)[1]))
}

// TestProgressOfASlowRegistry: those who wait are told that the registry is being
// asked, and then, while bytes come in, how many have.
func TestProgressOfASlowRegistry(t *testing.T) {
	noise := make([]byte, 1<<20) // does not compress
	rand.Read(noise)
	img := imageOf(t, tarOf(t, file("noise", string(noise))), tarOf(t, file("small", "x")))
	var slow atomic.Bool
	host := startRegistry(t, func(w http.ResponseWriter, r *http.Request) bool {
		l := blobAsked(r, layersOf(t, img))
		if !slow.Load() || l == nil {
			return true
		}
		serveSlowly(t, w, l)
		return false
	})
	push(t, host+"/a:v1", img)
	slow.Store(true)
	got := &progressOf{t: t}
	_, err := openStore(t).Resolve(WithProgress(t.Context(), got.observe), host+"/a:v1", nil)
	check(t, err)
	total := bytesOf(t, layersOf(t, img)...)
	got.wantEnd(2, total)
	if got.seen[0] != (Progress{}) {
		t.Errorf("before the registry answers: %+v", got.seen[0])
	}
	between := 0
	for _, p := range got.seen {
		if p.Done > 0 && p.Done < total {
			between++
		}
	}
	if between < 4 {
		t.Errorf("%d reports between the beginning and the end", between)
	}
}

// blobAsked is the layer whose stored form a request asks for.
func blobAsked(r *http.Request, layers []v1.Layer) v1.Layer {
	for _, l := range layers {
		digest, err := l.Digest()
		if err == nil && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+digest.String()) {
			return l
		}
	}
	return nil
}

// serveSlowly sends a layer in pieces, each of which arrives before the next.
func serveSlowly(t *testing.T, w http.ResponseWriter, l v1.Layer) {
	blob, err := l.Compressed()
	if err != nil {
		t.Error(err)
		return
	}
	defer blob.Close()
	for err == nil {
		if _, err = io.CopyN(w, blob, 128<<10); err == nil {
			err = http.NewResponseController(w).Flush()
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != io.EOF {
		t.Error(err)
	}
}

func TestProgressPrefersTheCallersFunction(t *testing.T) {
	given, inherited := 0, 0
	ctx := WithProgress(t.Context(), func(Progress) { inherited++ })
	observerOf(ctx, func(Progress) { given++ })(Progress{})
	observerOf(ctx, nil)(Progress{})
	observerOf(WithProgress(ctx, nil), nil)(Progress{})
	observerOf(context.Background(), nil)(Progress{})
	if given != 1 || inherited != 1 {
		t.Errorf("%d reports to the given function and %d to the context's, want one each", given, inherited)
	}
}

// TestProgressOfHostileSizes: whatever sizes a manifest claims, and whatever then
// comes, nothing overflows.
func TestProgressOfHostileSizes(t *testing.T) {
	got := &progressOf{t: t}
	lacking := []layer{{size: math.MaxInt64}, {size: math.MaxInt64}, {size: 0}}
	tally := newTally(3, lacking, got.observe)
	for _, l := range lacking {
		report := tally.of(l)
		report(1 << 20)
		report(math.MaxInt64)
		tally.ready(report, l)
	}
	got.wantEnd(3, math.MaxInt64)
}
