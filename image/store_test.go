package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/internal/soak"
	"aether/sandbox"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// resolveEnv makes the test binary resolve "STORE REF" and print the layers.
const resolveEnv = "IMAGE_TEST_RESOLVE"

// holdEnv has it use the store until it is killed.
const holdEnv = "IMAGE_TEST_HOLD"

func TestMain(m *testing.M) {
	if job := os.Getenv(resolveEnv); job != "" {
		if err := resolveJob(job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func resolveJob(job string) error {
	dir, ref, _ := strings.Cut(job, " ")
	s, err := Open(dir)
	if err != nil {
		return err
	}
	root, err := s.Resolve(context.Background(), ref, func(Progress) { fmt.Print(".") })
	fmt.Println(root.Layers)
	if os.Getenv(holdEnv) != "" {
		select {} // until it is killed
	}
	return err
}

func resolveElsewhere(s *Store, ref string) *exec.Cmd {
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), resolveEnv+"="+s.dir+" "+ref)
	return child
}

func bigLayout(t *testing.T) string {
	t.Helper()
	var entries []entry
	for i := range 2000 {
		entries = append(entries, file(fmt.Sprintf("d%d/f%d", i%50, i), strings.Repeat("x", i)))
	}
	return writeLayout(t, map[string]v1.Image{"": imageOf(t, tarOf(t, entries...), tarOf(t, file("top", "")))})
}

func TestConcurrentResolve(t *testing.T) {
	s, ref := openStore(t), bigLayout(t)
	var work sync.WaitGroup
	for i := range 6 {
		work.Go(func() {
			if i%2 == 0 {
				if out, err := resolveElsewhere(s, ref).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, out)
				}
				return
			}
			if _, err := s.Resolve(context.Background(), ref, nil); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if names, err := os.ReadDir(filepath.Join(s.dir, "layers")); err != nil || len(names) != 2 {
		t.Errorf("layers %v, %v", names, err)
	}
	wantNothingLeft(t, s)
}

// TestKilledUnpackLeavesNothing kills a program at several moments of its work.
func TestKilledUnpackLeavesNothing(t *testing.T) {
	ref, partial := bigLayout(t), false
	for moment := range soak.Count(5, 50) {
		s := openStore(t)
		child := resolveElsewhere(s, ref)
		out, err := child.StdoutPipe()
		check(t, err)
		check(t, child.Start())
		_, err = io.ReadFull(out, make([]byte, 1))
		check(t, err)
		time.Sleep(time.Duration(moment%5) * 2 * time.Millisecond)
		check(t, child.Process.Kill())
		_ = child.Wait() // killed, so an error unless it was faster
		left, err := os.ReadDir(filepath.Join(s.dir, "work"))
		check(t, err)
		partial = partial || len(left) > 0
		again, err := Open(s.dir)
		check(t, err)
		work, err := os.ReadDir(filepath.Join(s.dir, "work"))
		check(t, err)
		if len(work) != 0 {
			t.Errorf("after the next start work has %v", work)
		}
		root := resolve(t, again, ref)
		if len(read(t, root.Layers[0], "d49/f1999")) != 1999 {
			t.Error("the layer is not whole")
		}
	}
	if !partial {
		t.Error("no kill hit the work: this test tests nothing")
	}
}

func TestReapSparesTheLiving(t *testing.T) {
	s := openStore(t)
	hex := strings.Repeat("a", 64)
	err := s.ensureDir(t.Context(), hex, func(string) error {
		count, err := s.Reap(t.Context())
		if there, _ := exists(s.workDir(hex)); !there || count != 0 {
			t.Errorf("living work was reaped (%d)", count)
		}
		return err
	})
	check(t, err)
	check(t, os.Mkdir(s.workDir("dead"), 0o700))
	if count, err := s.Reap(t.Context()); count != 1 || err != nil {
		t.Errorf("reaped %d, %v", count, err)
	}
}

func TestListAndRemove(t *testing.T) {
	base := tarOf(t, file("base", ""))
	one, two := imageOf(t, base, tarOf(t, file("one", ""))), imageOf(t, base, tarOf(t, file("two", "")))
	dir, s := writeLayout(t, map[string]v1.Image{"one": one, "two": two}), openStore(t)
	first, second := resolve(t, s, dir+":one"), resolve(t, s, dir+":two")
	images, err := s.List()
	check(t, err)
	if len(images) != 2 || images[0].Ref != dir+":one" || !slices.Equal(images[1].Layers, second.Layers) {
		t.Errorf("list %+v", images)
	}
	check(t, s.Remove(t.Context(), first.Digest))
	absent(t, first.Layers[1])
	if read(t, second.Layers[0], "base") != "" {
		t.Error("a shared layer went")
	}
	wantClass(t, s.Remove(t.Context(), first.Digest), sandbox.NotFound)
	check(t, s.Remove(t.Context(), second.Digest))
	absent(t, second.Layers[0])
	resolve(t, s, dir+":one")
	wantNothingLeft(t, s)
}

// TestRemoveWhileResolving: whoever resolves gets whole layers or a new unpack.
func TestRemoveWhileResolving(t *testing.T) {
	s, ref := openStore(t), writeLayout(t, map[string]v1.Image{"": sampleImage(t)})
	digest := resolve(t, s, ref).Digest
	var work sync.WaitGroup
	work.Go(func() {
		for range 20 {
			if err := s.Remove(context.Background(), digest); err != nil && sandbox.ClassOf(err) != sandbox.NotFound {
				t.Error(err)
			}
		}
	})
	work.Go(func() {
		for range 20 {
			if _, err := s.Resolve(context.Background(), ref, nil); err != nil {
				t.Error(err)
			}
		}
	})
	work.Wait()
	wantSample(t, resolve(t, s, ref))
	wantNothingLeft(t, s)
}

func TestOpenRefusesSharedDirectories(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o777))
	_, err := Open(dir)
	wantClass(t, err, sandbox.Denied)
}
