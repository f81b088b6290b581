package kernel

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aether/sandbox"

	"github.com/klauspost/compress/zstd"
)

func TestCompareReleases(t *testing.T) {
	ordered := []string{"5.10.0-30-amd64", "6.1.0-9-cloud-amd64", "6.1.0-54-amd64", "6.1.0-54-cloud-amd64", "6.10.1", "6.10.1-rc2", "10.0"}
	for i := range ordered {
		for j := range ordered {
			if got, want := sign(compareReleases(ordered[i], ordered[j])), sign(i-j); got != want {
				t.Errorf("%s to %s is %d, want %d", ordered[i], ordered[j], got, want)
			}
		}
	}
}

func sign(n int) int { return min(1, max(-1, n)) }

// root makes a system with a kernel and its modules.
func root(t *testing.T, dir, release string) string {
	put(t, filepath.Join(dir, "lib/modules", release, "modules.builtin"), nil)
	return put(t, filepath.Join(dir, "boot/vmlinuz-"+release), loaderFor(release, []byte("\x7fELF")))
}

func TestFindPrefers(t *testing.T) {
	host, installed := t.TempDir(), t.TempDir()
	find := func(p Places) string {
		p.Host = host
		k, err := Find(p)
		if err != nil {
			return sandbox.ClassOf(err).String()
		}
		return k.Release
	}
	if got := find(Places{Installed: installed}); got != "not_found" {
		t.Errorf("nothing anywhere: %s", got)
	}
	root(t, host, "6.1.0-9")
	root(t, host, "6.1.0-54")
	put(t, filepath.Join(host, "boot/vmlinuz-7.0"), loaderFor("7.0", nil)) // without modules
	if got := find(Places{Installed: installed}); got != "6.1.0-54" {
		t.Errorf("of the host: %s", got)
	}
	root(t, filepath.Join(installed, "5.10.0"), "5.10.0")
	root(t, filepath.Join(installed, "6.1.0-8"), "6.1.0-8")
	check(t, os.Mkdir(filepath.Join(installed, ".work"), 0o755))
	if got := find(Places{Installed: installed}); got != "6.1.0-8" {
		t.Errorf("of those installed: %s", got)
	}
	named := root(t, t.TempDir(), "4.19")
	if got := find(Places{Named: named, Installed: installed}); got != "4.19" {
		t.Errorf("the named one: %s", got)
	}
}

func TestNamedKernelMustBeOne(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content []byte
		class   sandbox.Class
	}{
		"text":  {[]byte("no kernel"), sandbox.Invalid},
		"empty": {nil, sandbox.Invalid},
		"zeros": {make([]byte, 4096), sandbox.Invalid},
		"climb": {loaderFor("../../etc", nil), sandbox.Invalid},
	} {
		_, err := Find(Places{Named: put(t, filepath.Join(dir, name), c.content)})
		if sandbox.ClassOf(err) != c.class {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Find(Places{Named: filepath.Join(dir, "missing")}); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("missing: %v", err)
	}
}

// packers make what kernels are packed with.
var packers = map[string]func(t *testing.T, plain []byte) []byte{
	"gzip": func(t *testing.T, plain []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write(plain)
		check(t, errors.Join(err, w.Close()))
		return append(b.Bytes(), 0, 0)
	},
	"zstd": func(t *testing.T, plain []byte) []byte {
		w, err := zstd.NewWriter(nil)
		check(t, err)
		return w.EncodeAll(plain, nil)
	},
	"xz":    byTool("xz", "--check=crc32", "-c"),
	"lz4":   byTool("lz4", "-l", "-9", "-c"),
	"plain": func(_ *testing.T, plain []byte) []byte { return plain },
}

func byTool(name string, args ...string) func(*testing.T, []byte) []byte {
	return func(t *testing.T, plain []byte) []byte {
		cmd := exec.Command(name, args...)
		cmd.Stdin = bytes.NewReader(plain)
		out, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip(name + " is not installed")
		}
		check(t, err)
		return out
	}
}

func TestUnpacked(t *testing.T) {
	plain := []byte("\x7fELF" + strings.Repeat("a kernel that repeats itself, ", 400_000)) // over one block of lz4
	for name, pack := range packers {
		t.Run(name, func(t *testing.T) {
			k := Kernel{Image: put(t, filepath.Join(t.TempDir(), "vmlinuz"), loaderFor("1", pack(t, plain)))}
			got, err := k.Unpacked(t.Context())
			if err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(plain))
			}
		})
	}
}

func TestBrokenKernelsAreInvalid(t *testing.T) {
	outside := loaderFor("1", []byte("\x7fELF"))
	outside[payloadLength+3] = 0x7f
	for name, image := range map[string][]byte{
		"gzip":       loaderFor("1", []byte("\x1f\x8bbroken")),
		"zstd":       loaderFor("1", []byte("\x28\xb5\x2f\xfdbroken")),
		"lz4":        loaderFor("1", []byte(lz4Magic+"\x05\x00\x00\x00\xf0\xff\xff\xff\xff")),
		"lz4 length": loaderFor("1", []byte(lz4Magic+"\xff\xff\xff\xff")),
		"lz4 back":   loaderFor("1", []byte(lz4Magic+"\x05\x00\x00\x00\x10a\x02\x00\x00")),
		"lz4 block":  loaderFor("1", lz4Bomb(1, lz4Block+1)),
		"no kernel":  loaderFor("1", packers["gzip"](t, []byte("text"))),
		"outside":    outside,
	} {
		k := Kernel{Image: put(t, filepath.Join(t.TempDir(), "vmlinuz"), image)}
		if _, err := k.Unpacked(t.Context()); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lz4Bomb is so many blocks, each of which says that it unpacks to so many bytes.
func lz4Bomb(blocks, size int) []byte {
	// One literal, then a copy of it whose length goes on in steps of 255, then a
	// last sequence of one literal.
	more := size - 1 - 1 - 4 - 15
	block := append([]byte("\x1fa\x01\x00"), bytes.Repeat([]byte{255}, more/255)...)
	block = append(block, byte(more%255), 0x10, 'b')
	packed := []byte(lz4Magic)
	for range blocks {
		packed = binary.LittleEndian.AppendUint32(packed, uint32(len(block)))
		packed = append(packed, block...)
	}
	return packed
}

// TestLZ4IsBounded has blocks unpack to exactly what they may, and to more.
func TestLZ4IsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		blocks, size int
		ok           bool
	}{
		"a whole block":        {1, lz4Block, true},
		"two":                  {2, lz4Block, true},
		"more than a block":    {1, lz4Block + 1, false},
		"all that is allowed":  {maxKernel / lz4Block, lz4Block, true},
		"more than is allowed": {maxKernel/lz4Block + 1, lz4Block, false},
	} {
		out, err := unpackLZ4(lz4Bomb(c.blocks, c.size))
		if ok := err == nil; ok != c.ok || ok && len(out) != c.blocks*c.size {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
}

func TestOpenUnpackedKeeps(t *testing.T) {
	dir := t.TempDir()
	k := Kernel{Image: put(t, filepath.Join(t.TempDir(), "vmlinuz"), loaderFor("1", []byte("\x7fELF one")))}
	open := func() string {
		file, err := k.OpenUnpacked(t.Context(), dir)
		check(t, err)
		defer file.Close()
		return file.Name()
	}
	first := open()
	if again := open(); again != first {
		t.Errorf("the same kernel is unpacked twice: %s, %s", first, again)
	}
	put(t, k.Image, loaderFor("1", []byte("\x7fELF another")))
	if changed := open(); changed == first {
		t.Error("a changed kernel is not unpacked again")
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"kernel/top.ko":            module("license=GPL\x00depends=mid-dle,base\x00"),
		"kernel/a/mid_dle.ko.gz":   packers["gzip"](t, module("depends=base\x00softdep=pre: soft missing post: later\x00")),
		"kernel/a/base.ko.zst":     packers["zstd"](t, module("depends=inside\x00")),
		"kernel/b/soft.ko":         module("depends=\x00"),
		"kernel/b/later.ko":        module("depends=\x00"),
		"modules.builtin":          []byte("kernel/fs/inside.ko\n"),
		"kernel/b/broken.ko":       []byte("\x7fELF and no more"),
		"kernel/b/orphan.ko":       module("depends=nowhere\x00"),
		"kernel/unrelated.symvers": nil,
	} {
		put(t, filepath.Join(dir, name), content)
	}
	k := Kernel{Release: "1", Modules: dir}
	list, err := k.Load(t.Context(), "absent?", "top", "inside", "soft?")
	check(t, err)
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
		if !bytes.HasPrefix(m.Data, []byte("\x7fELF")) {
			t.Errorf("%s is not unpacked", m.Name)
		}
	}
	if want := []string{"base", "soft", "mid_dle", "top"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	for name, class := range map[string]sandbox.Class{"absent": sandbox.NotFound, "orphan": sandbox.NotFound, "broken": sandbox.Invalid} {
		if _, err := k.Load(t.Context(), name); sandbox.ClassOf(err) != class {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzUnpackLZ4(f *testing.F) {
	f.Add([]byte(lz4Magic + "\x06\x00\x00\x00\x10a\x01\x00\x00b"))
	f.Add([]byte(lz4Magic + "\x03\x00\x00\x00\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		if len(packed) < len(lz4Magic) {
			return
		}
		if out, err := unpackLZ4(packed); err == nil && len(out) > maxKernel {
			t.Errorf("%d bytes", len(out))
		}
	})
}

func FuzzNeeds(f *testing.F) {
	f.Add(module("depends=a,b\x00softdep=pre: c\x00"))
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(_ *testing.T, content []byte) { _, _, _ = needs(content) })
}
