package guest

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"
)

func drain(r *reader) (data []byte) {
	for {
		event, err := r.peek()
		if err == io.EOF {
			return data
		}
		if event == nil {
			<-r.wake
			continue
		}
		data = append(data, event.GetData().GetStdout()...)
		r.take()
	}
}

func TestOutputWithoutReadersKeepsTheEnd(t *testing.T) {
	o := newOutput(4 * (1 + chunkCost))
	for _, b := range []byte("abcdefgh") {
		o.append(stdoutEvent([]byte{b}), 1)
	}
	r := o.attach()
	o.close()
	if got := drain(r); string(got) != "efgh" {
		t.Errorf("got %q", got)
	}
}

func TestOutputWaitsForTheSlowestReader(t *testing.T) {
	o := newOutput(10 * (1 + chunkCost))
	fast, slow := o.attach(), o.attach()
	want := bytes.Repeat([]byte("x"), 100)
	var got [2][]byte
	var wg sync.WaitGroup
	wg.Go(func() { got[0] = drain(fast) })
	wg.Go(func() {
		time.Sleep(20 * time.Millisecond)
		got[1] = drain(slow)
	})
	for range want {
		o.append(stdoutEvent([]byte("x")), 1)
	}
	o.close()
	wg.Wait()
	if !bytes.Equal(got[0], want) || !bytes.Equal(got[1], want) {
		t.Errorf("%d and %d bytes of %d", len(got[0]), len(got[1]), len(want))
	}
}

func TestOutputGoesOnWhenTheReaderLeaves(t *testing.T) {
	o := newOutput(2 * (1 + chunkCost))
	r := o.attach()
	done := make(chan struct{})
	go func() {
		for range 100 {
			o.append(stdoutEvent([]byte("x")), 1)
		}
		close(done)
	}()
	select {
	case <-done:
		t.Fatal("the writer did not wait for its reader")
	case <-time.After(20 * time.Millisecond):
	}
	r.detach()
	<-done
}

func TestOutputPieceLargerThanTheLimit(t *testing.T) {
	o := newOutput(10)
	o.append(stdoutEvent(make([]byte, 100)), 100)
	o.append(stdoutEvent([]byte("end")), 3)
	r := o.attach()
	o.close()
	if got := drain(r); string(got) != "end" {
		t.Errorf("got %q", got)
	}
}

func TestLateReaderStartsWithWhatNobodyTook(t *testing.T) {
	o := newOutput(1 << 20)
	r := o.attach()
	o.append(stdoutEvent([]byte("taken")), 5)
	o.append(stdoutEvent([]byte("left")), 4)
	r.take()
	r.detach()
	late := o.attach()
	o.close()
	if got := drain(late); string(got) != "left" {
		t.Errorf("got %q", got)
	}
}

// TestOutputDetachedReaderTakesNothing leaves a reader's piece to the next one.
func TestOutputDetachedReaderTakesNothing(t *testing.T) {
	o := newOutput(2 * (1 + chunkCost))
	o.append(stdoutEvent([]byte("a")), 1)
	r := o.attach()
	if event, err := r.peek(); event == nil || err != nil {
		t.Fatalf("%v, %v", event, err)
	}
	r.detach()
	if r.take() {
		t.Error("a reader that was detached took something")
	}
	next := o.attach()
	o.close()
	if got := drain(next); string(got) != "a" {
		t.Errorf("got %q", got)
	}
	next.detach()
	for range 3 { // what the first has not seen is dropped meanwhile
		o.append(stdoutEvent([]byte("b")), 1)
	}
	if r.take() {
		t.Error("it took what is gone")
	}
}
