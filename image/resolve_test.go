package image

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	ocilayout "github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// wantSample checks a root made from sampleImage, wherever it came from.
func wantSample(t *testing.T, root Root) {
	t.Helper()
	if len(root.Layers) != 2 || len(root.Binds) != 0 {
		t.Fatalf("layers %v, binds %v", root.Layers, root.Binds)
	}
	lower, upper := root.Layers[0], root.Layers[1]
	if read(t, lower, "etc/name") != "lower" || read(t, upper, "etc/alias") != "upper" || read(t, lower, "usr/bin/tool") != "#!" {
		t.Error("the layers have other contents")
	}
	c := root.Config
	if c.Env["A"] != "b=c" || c.Env["PATH"] != "/only" || c.User != "1000:1000" || c.WorkDir != "/srv/app" ||
		!slices.Equal(c.Entrypoint, []string{"/entry"}) || !slices.Equal(c.Cmd, []string{"arg"}) {
		t.Errorf("configuration %+v", c)
	}
}

func writeLayout(t testing.TB, tags map[string]v1.Image) string {
	t.Helper()
	dir := t.TempDir()
	path, err := ocilayout.Write(dir, empty.Index)
	check(t, err)
	for tag, img := range tags {
		check(t, path.AppendImage(img, ocilayout.WithAnnotations(map[string]string{refName: tag})))
	}
	return dir
}

func TestResolveLayout(t *testing.T) {
	img, other := sampleImage(t), imageOf(t, tarOf(t, file("other", "")))
	digest, err := img.Digest()
	check(t, err)
	one, two := writeLayout(t, map[string]v1.Image{"v1": img}), writeLayout(t, map[string]v1.Image{"v1": img, "v2": other})
	s := openStore(t)
	for _, ref := range []string{one, one + ":v1", two + ":v1", two + "@" + digest.String()} {
		root := resolve(t, s, ref)
		wantSample(t, root)
		if root.Digest != digest.String() {
			t.Errorf("%s has the digest %s, want %v", ref, root.Digest, digest)
		}
	}
	_, err = s.Resolve(t.Context(), two, nil)
	wantClass(t, err, sandbox.Invalid)
	_, err = s.Resolve(t.Context(), two+":v3", nil)
	wantClass(t, err, sandbox.NotFound)
	wantNothingLeft(t, s)
}

func TestResolveDockerArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.tar")
	tag, err := name.NewTag("example.com/team/app:v1")
	check(t, err)
	check(t, tarball.WriteToFile(path, tag, sampleImage(t)))
	s := openStore(t)
	for _, ref := range []string{path, path + ":v1", path + ":example.com/team/app:v1"} {
		wantSample(t, resolve(t, s, ref))
	}
	_, err = s.Resolve(t.Context(), path+":v2", nil)
	wantClass(t, err, sandbox.NotFound)
}

func TestResolveLayoutArchive(t *testing.T) {
	dir := writeLayout(t, map[string]v1.Image{"v1": sampleImage(t)})
	var entries []entry
	for _, name := range []string{"oci-layout", "index.json"} {
		entries = append(entries, file(name, read(t, dir, name)))
	}
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs/sha256"))
	check(t, err)
	for _, b := range blobs {
		entries = append(entries, file("./blobs/sha256/"+b.Name(), read(t, dir, "blobs/sha256", b.Name())))
	}
	path := filepath.Join(t.TempDir(), "oci.tar")
	check(t, os.WriteFile(path, tarOf(t, entries...), 0o600))
	wantSample(t, resolve(t, openStore(t), path+":v1"))
}

func TestResolveDirectory(t *testing.T) {
	s, dir := openStore(t), t.TempDir()
	if root := resolve(t, s, dir); !slices.Equal(root.Layers, []string{dir}) || root.Digest != "" || root.Config.WorkDir != "/" {
		t.Errorf("got %+v", root)
	}
	t.Chdir(dir)
	if root := resolve(t, s, "."); !slices.Equal(root.Layers, []string{dir}) {
		t.Errorf("got %+v", root)
	}
}

func TestResolveRefuses(t *testing.T) {
	s, dir := openStore(t), t.TempDir()
	text := filepath.Join(dir, "text")
	check(t, os.WriteFile(text, []byte(strings.Repeat("no archive ", 100)), 0o600))
	empty := filepath.Join(dir, "empty.tar")
	check(t, os.WriteFile(empty, tarOf(t, file("x", "")), 0o600))
	for ref, want := range map[string]sandbox.Class{
		filepath.Join(dir, "missing"): sandbox.NotFound,
		"./missing":                   sandbox.NotFound,
		text:                          sandbox.Invalid,
		text + "/below":               sandbox.Invalid,
		empty:                         sandbox.Invalid,
		dir + "@sha256:" + strings.Repeat("0", 64): sandbox.Invalid,
		"/":                        sandbox.Invalid,
		"/dev/null":                sandbox.Invalid,
		"a\x00b":                   sandbox.Invalid,
		"Not A Name":               sandbox.Invalid,
		strings.Repeat("x", 1<<16): sandbox.Invalid,
	} {
		_, err := s.Resolve(t.Context(), ref, nil)
		if got := sandbox.ClassOf(err); err == nil || got != want {
			t.Errorf("%.60q: class %v, want %v: %v", ref, got, want, err)
		}
	}
}

// rawImage writes a layout by hand, so that its parts can disagree.
type rawImage struct {
	t      *testing.T
	dir    string
	config map[string]any
	layers []v1.Descriptor
}

func newRawImage(t *testing.T) *rawImage {
	r := &rawImage{t: t, dir: t.TempDir(), config: map[string]any{}}
	check(t, os.MkdirAll(filepath.Join(r.dir, "blobs/sha256"), 0o755))
	check(t, os.WriteFile(filepath.Join(r.dir, layoutFile), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o600))
	return r
}

func (r *rawImage) blob(content []byte) v1.Descriptor {
	d := v1.Descriptor{Size: int64(len(content)), Digest: hashOf(content)}
	check(r.t, os.WriteFile(filepath.Join(r.dir, blobName(d.Digest)), content, 0o600))
	return d
}

func (r *rawImage) json(value any) v1.Descriptor {
	text, err := json.Marshal(value)
	check(r.t, err)
	return r.blob(text)
}

func (r *rawImage) layer(stored []byte, diffIDs ...v1.Hash) *rawImage {
	r.layers = append(r.layers, r.blob(stored))
	r.config["rootfs"] = map[string]any{"diff_ids": diffIDs}
	return r
}

func (r *rawImage) resolve(s *Store) (Root, error) {
	manifest := r.json(v1.Manifest{SchemaVersion: 2, Config: r.json(r.config), Layers: r.layers})
	text, err := json.Marshal(v1.IndexManifest{Manifests: []v1.Descriptor{manifest}})
	check(r.t, err)
	check(r.t, os.WriteFile(filepath.Join(r.dir, indexFile), text, 0o600))
	return s.Resolve(r.t.Context(), r.dir, nil)
}

func hashOf(content []byte) v1.Hash {
	sum := sha256.Sum256(content)
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
}

func gzipped(t *testing.T, content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(content)
	check(t, err)
	check(t, w.Close())
	return out.Bytes()
}

func TestLayerCompressions(t *testing.T) {
	encoder, err := zstd.NewWriter(nil)
	check(t, err)
	for name, pack := range map[string]func([]byte) []byte{
		"plain": func(b []byte) []byte { return b },
		"gzip":  func(b []byte) []byte { return gzipped(t, b) },
		"zstd":  func(b []byte) []byte { return encoder.EncodeAll(b, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			archive := tarOf(t, file("f", name))
			root, err := newRawImage(t).layer(pack(archive), hashOf(archive)).resolve(openStore(t))
			check(t, err)
			if read(t, root.Layers[0], "f") != name {
				t.Error("other content")
			}
		})
	}
}

// TestSameLayerTwice: overlayfs refuses a directory that is named twice.
func TestSameLayerTwice(t *testing.T) {
	a, b := tarOf(t, file("a", "")), tarOf(t, file("b", ""))
	r := newRawImage(t).layer(a).layer(b).layer(a, hashOf(a), hashOf(b), hashOf(a))
	s := openStore(t)
	root, err := r.resolve(s)
	check(t, err)
	if want := []string{s.layerDir(hashOf(b).Hex), s.layerDir(hashOf(a).Hex)}; !slices.Equal(root.Layers, want) {
		t.Errorf("layers %v, want %v", root.Layers, want)
	}
}

func TestHostileImages(t *testing.T) {
	archive := tarOf(t, file("f", "content"))
	good := hashOf(archive)
	bomb := gzipped(t, tarOf(t, file("bomb", strings.Repeat("\x00", 8<<20))))
	for name, spoil := range map[string]func(*rawImage){
		"wrong diff id":      func(r *rawImage) { r.layer(archive, hashOf(nil)) },
		"diff id as a path":  func(r *rawImage) { r.layer(archive, v1.Hash{Algorithm: "sha256", Hex: "../../../../tmp"}) },
		"diff id of another": func(r *rawImage) { r.layer(archive, v1.Hash{Algorithm: "md5", Hex: good.Hex}) },
		"too few diff ids":   func(r *rawImage) { r.layer(archive) },
		"too many layers": func(r *rawImage) {
			for range maxLayers + 1 {
				r.layer(archive, good)
			}
		},
		"wrong size":    func(r *rawImage) { r.layer(archive, good); r.layers[0].Size-- },
		"smaller size":  func(r *rawImage) { r.layer(archive, good); r.layers[0].Size = 0 },
		"negative size": func(r *rawImage) { r.layer(archive, good); r.layers[0].Size = -1 },
		"wrong blob": func(r *rawImage) {
			r.layer(archive, good)
			check(t, os.WriteFile(filepath.Join(r.dir, blobName(r.layers[0].Digest)), gzipped(t, archive), 0o600))
		},
		"blob of other bytes": func(r *rawImage) {
			stored := gzipped(t, archive)
			r.layer(stored, good)
			stored[9] ^= 1 // the header's byte for the system: same size, same archive
			check(t, os.WriteFile(filepath.Join(r.dir, blobName(r.layers[0].Digest)), stored, 0o600))
		},
		"missing blob":   func(r *rawImage) { r.layer(archive, good); r.layers[0].Digest = hashOf(nil) },
		"blob as a path": func(r *rawImage) { r.layer(archive, good); r.layers[0].Digest.Hex = "../../index.json" },
		"broken gzip":    func(r *rawImage) { r.layer(gzipped(t, archive)[:40], good) },
		"broken zstd":    func(r *rawImage) { r.layer([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff, 0xff}, good) },
		"gzip bomb":      func(r *rawImage) { r.layer(bomb, good) },
		"tail bomb": func(r *rawImage) {
			tail := append(bytes.Clone(archive), make([]byte, 16<<20)...)
			r.layer(gzipped(t, tail), hashOf(tail))
		},
		"bad variable":     func(r *rawImage) { r.layer(archive, good); r.config["config"] = v1.Config{Env: []string{"=x"}} },
		"zero byte":        func(r *rawImage) { r.layer(archive, good); r.config["config"] = v1.Config{User: "a\x00b"} },
		"other machine":    func(r *rawImage) { r.layer(archive, good); r.config["architecture"] = "s390x" },
		"config as a list": func(r *rawImage) { r.layer(archive, good); r.config["config"] = []int{1} },
	} {
		t.Run(name, func(t *testing.T) {
			r, s := newRawImage(t), openStore(t)
			s.limits.bytes, s.limits.overhead = 1<<20, 1<<20
			spoil(r)
			_, err := r.resolve(s)
			wantClass(t, err, sandbox.Invalid)
			wantNothingLeft(t, s)
			layers, err := os.ReadDir(filepath.Join(s.dir, "layers"))
			check(t, err)
			if len(layers) != 0 {
				t.Errorf("the store keeps %v", layers)
			}
		})
	}
}

// FuzzArchive feeds arbitrary files as archives of images.
func FuzzArchive(f *testing.F) {
	f.Add(tarOf(f, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", `{"rootfs":{"diff_ids":[]}}`), symlink("l", "c")))
	f.Add(tarOf(f, file("oci-layout", "{}"), file("index.json", `{"manifests":[{"digest":"sha256:../x"}]}`)))
	f.Fuzz(func(t *testing.T, archive []byte) {
		path := filepath.Join(t.TempDir(), "a.tar")
		check(t, os.WriteFile(path, archive, 0o600))
		s := openStore(t)
		s.limits.bytes, s.limits.entries = 64<<10, 64
		if _, err := s.Resolve(t.Context(), path, nil); err != nil {
			if class := sandbox.ClassOf(err); class != sandbox.Invalid && class != sandbox.NotFound {
				t.Errorf("class %v: %v", class, err)
			}
		}
	})
}
