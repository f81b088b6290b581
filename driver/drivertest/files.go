package drivertest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	pb "aether/guest/wire/filesystem"
	"aether/sandbox"
)

func (s *suite) files() []test {
	return []test{
		{"write and read", s.writeAndRead}, {"tree", s.tree}, {"errors", s.fileErrors}, {"watch", s.watch},
		{"same as commands see", s.sameFiles}, {"own layer", s.ownLayer},
	}
}

func (b *box) read(t testing.TB, path string) []byte {
	t.Helper()
	file, err := b.Read(b.config.patient(t), path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (b *box) write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := b.Write(b.config.patient(t), path, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) writeAndRead(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	for name, data := range map[string][]byte{"empty": {}, "small": []byte("x"), "large": random(t, s.megabytes(16))} {
		path := "/tmp/new/dirs/" + name
		b.write(t, path, data)
		if got := b.read(t, path); !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes came back as %d others", name, len(data), len(got))
		}
	}
	b.write(t, "/tmp/new/dirs/large", []byte("shorter"))
	if got := b.sh(t, "cat /tmp/new/dirs/large"); got != "shorter" {
		t.Errorf("replaced, it is %q", got)
	}
}

func (s *suite) tree(t *testing.T) {
	b, ctx := s.make(t, sandbox.Spec{}), s.patient(t)
	for _, step := range []func() error{
		func() error { return b.MakeDir(ctx, "/tmp/a/b") },
		func() error { return b.Write(ctx, "/tmp/a/b/one", strings.NewReader("1")) },
		func() error { return b.Move(ctx, "/tmp/a/b/one", "/tmp/a/two") },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.List(ctx, "/tmp/a", 2)
	var names []string
	for _, e := range list {
		names = append(names, e.GetPath())
	}
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"/tmp/a/b", "/tmp/a/two"}) {
		t.Errorf("%q, %v", names, err)
	}
	entry, err := b.Stat(ctx, "/tmp/a/two")
	if err != nil || entry.GetSize() != 1 || entry.GetType() != pb.FileType_FILE_TYPE_FILE {
		t.Errorf("%v, %v", entry, err)
	}
	if err := b.Remove(ctx, "/tmp/a"); err != nil {
		t.Error(err)
	}
	_, err = b.Stat(ctx, "/tmp/a/two")
	wantClass(t, err, sandbox.NotFound)
}

func (s *suite) fileErrors(t *testing.T) {
	b, ctx := s.make(t, sandbox.Spec{}), s.patient(t)
	b.sh(t, "mkdir /tmp/dir; echo x > /tmp/file")
	_, err := b.Read(ctx, "/no/such")
	wantClass(t, err, sandbox.NotFound)
	_, err = b.List(ctx, "/no/such", 1)
	wantClass(t, err, sandbox.NotFound)
	wantClass(t, b.MakeDir(ctx, "/tmp/dir"), sandbox.Conflict)
	_, err = b.Read(ctx, "/tmp/dir")
	wantClass(t, err, sandbox.Invalid)
	wantClass(t, b.Write(ctx, "/tmp/file/below", strings.NewReader("x")), sandbox.Invalid)
	wantClass(t, b.Move(ctx, "/no/such", "/tmp/x"), sandbox.NotFound)
}

func (s *suite) watch(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	b.sh(t, "mkdir /tmp/seen")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ready, events, ended := make(chan struct{}), make(chan string, 64), make(chan error, 1)
	go func() {
		ended <- b.Watch(ctx, "/tmp/seen", true, func() { close(ready) }, func(e *pb.FilesystemEvent) { events <- e.GetType().String() + " " + e.GetName() })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(s.patience()):
		t.Fatal("the watch does not begin")
	}
	b.sh(t, "cd /tmp/seen; echo 1 > file; mkdir sub; rm file")
	for _, want := range []string{"EVENT_TYPE_CREATE file", "EVENT_TYPE_CREATE sub", "EVENT_TYPE_REMOVE file"} {
		s.awaitEvent(t, events, want)
	}
	stop()
	<-ended
}

func (s *suite) awaitEvent(t *testing.T, events <-chan string, want string) {
	t.Helper()
	var seen []string
	for deadline := time.After(s.patience()); ; {
		select {
		case e := <-events:
			if seen = append(seen, e); e == want {
				return
			}
		case <-deadline:
			t.Fatalf("%q does not come, only %q", want, seen)
		}
	}
}

// sameFiles: what the service shows is what commands see, links included.
func (s *suite) sameFiles(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	b.sh(t, "cd /tmp; echo inside > target; ln -s /tmp/target absolute; ln -s target relative")
	for _, link := range []string{"absolute", "relative"} {
		if got := string(b.read(t, "/tmp/"+link)); got != "inside\n" {
			t.Errorf("%s: %q", link, got)
		}
	}
	b.write(t, "/tmp/from-service", []byte("data"))
	if got := b.sh(t, "cat /tmp/from-service; rm /tmp/from-service"); got != "data" {
		t.Errorf("a command sees %q", got)
	}
}

// ownLayer: a sandbox may write to its image, and the next one sees none of it.
func (s *suite) ownLayer(t *testing.T) {
	b := s.make(t, sandbox.Spec{})
	b.sh(t, "echo changed > $HOME/mine; test -s $HOME/mine; touch /tmp/mine")
	next := s.make(t, sandbox.Spec{})
	next.sh(t, "test ! -e $HOME/mine && test ! -e /tmp/mine")
}
