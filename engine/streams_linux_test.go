package engine_test

import (
	"io"
	"testing"

	"aether/sandbox"
)

// TestStreamsComeAndGo connects to a process, leaves it, comes back and ends its
// input.
func TestStreamsComeAndGo(t *testing.T) {
	need(t, "python3")
	child := fork(t, prepare(t, newEngine(t), countingRecipe()), 1)[0]
	before := ask(t, child, "1")
	first, err := child.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	child.Detach()
	<-first.Done()
	if _, err := io.WriteString(first.Stdin, "2\n"); err == nil {
		t.Error("a connection that was closed takes input")
	}
	if after := ask(t, child, "3"); after == before {
		t.Errorf("%q twice: it is not the same process", after)
	}
	again, err := child.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(again.Stdout); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v after the end of the input", rest, err)
	}
	<-again.Done()
	if status, err := again.Status(); err != nil || status.Code != 0 || status.Signal != 0 {
		t.Errorf("%+v, %v", status, err)
	}
}

// TestStreamsOfASandboxThatEnds ends a child while somebody reads from it, and
// connects to it afterwards.
func TestStreamsOfASandboxThatEnds(t *testing.T) {
	need(t, "python3")
	child := fork(t, prepare(t, newEngine(t), countingRecipe()), 1)[0]
	ask(t, child, "1")
	streams, err := child.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := streams.Stdout.Read(make([]byte, 1))
		read <- err
	}()
	if err := child.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err == nil {
		t.Error("output came from a sandbox that has ended")
	}
	<-streams.Done()
	if _, err := io.WriteString(streams.Stdin, "2\n"); err == nil {
		t.Error("a sandbox that has ended takes input")
	}
	<-child.Done()
	child.Detach()
	if _, err := child.Streams(t.Context()); sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("connecting to a sandbox that has ended: %v", err)
	}
}
