package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkCell is the whole life of a cell that runs one program.
func BenchmarkCell(b *testing.B) {
	base, err := openHost(b).Prepare(hostTree(b))
	if err != nil {
		b.Fatal(err)
	}
	defer base.Close()
	for b.Loop() {
		cell, err := base.Boot(Config{Hostname: "cell", Upper: 16 << 20, Group: noGroup})
		if err != nil {
			b.Fatal(err)
		}
		runTrue(b, cell)
		cell.Kill()
		cell.Wait()
	}
}

func BenchmarkBoot(b *testing.B) {
	base, err := openHost(b).Prepare(hostTree(b))
	if err != nil {
		b.Fatal(err)
	}
	defer base.Close()
	for b.Loop() {
		cell, err := base.Boot(Config{Hostname: "cell", Upper: 16 << 20, Group: noGroup})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		cell.Kill()
		cell.Wait()
		b.StartTimer()
	}
}

func BenchmarkExec(b *testing.B) {
	cell := bootCell(b)
	for b.Loop() {
		runTrue(b, cell)
	}
}

func runTrue(b *testing.B, cell *Cell) {
	p, _, err := cell.Exec(Command{Path: "/usr/bin/busybox", Args: []string{"true"}, Dir: "/", UID: UserID, GID: UserID, Group: noGroup})
	if err != nil {
		b.Fatal(err)
	}
	p.Wait()
}

func BenchmarkBwrap(b *testing.B) {
	layer := hostTree(b).Layers[0]
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skip("bwrap is not installed")
	}
	for b.Loop() {
		cmd := exec.Command(bwrap, "--unshare-all", "--bind", layer, "/", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "/usr/bin/busybox", "true")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatal(err, string(out))
		}
	}
	os.Remove(filepath.Join(layer, "x"))
}
