package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMountsInTheImage: what is mounted below a directory that is shown is shown
// too, and can be changed as little.
func TestMountsInTheImage(t *testing.T) {
	if currentIdentity().Single {
		t.Skip("only root mounts something on the host")
	}
	tree, dir, other := hostTree(t), t.TempDir(), t.TempDir()
	err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(filepath.Join(tree.Layers[0], "shown"), 0o755),
		os.MkdirAll(dir+"/a:b,c d/deep", 0o755), os.WriteFile(dir+"/file", []byte("below"), 0o644),
		os.WriteFile(other+"/file", []byte("a file"), 0o644), os.MkdirAll(other+"/deep", 0o755))
	mounts := [][2]string{{other, dir + "/a:b,c d"}, {other + "/file", dir + "/file"}, {other, dir + "/a:b,c d/deep"}}
	for _, m := range mounts {
		if err = errors.Join(err, unix.Mount(m[0], m[1], "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(m[1], unix.MNT_DETACH) })
	}
	tree.Binds = append(tree.Binds, Bind{Source: dir, Target: "/shown"})
	base, err := openHost(t).Prepare(tree)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	cell := bootFrom(t, base, Config{Hostname: "cell", Upper: 1 << 20, Group: noGroup})
	out, _ := sh(t, cell, `cat /shown/file "/shown/a:b,c d/file" "/shown/a:b,c d/deep/file"; ls "/shown/a:b,c d/deep"
		for f in /shown/new "/shown/a:b,c d/new" "/shown/a:b,c d/deep/new" /shown/file; do (echo x > "$f") 2>/dev/null && echo "$f is written"; done`)
	if want := "a filea filea filedeep\nfile"; out != want {
		t.Errorf("%q, not %q", out, want)
	}
}
