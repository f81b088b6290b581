package channel

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"aether/sandbox"
)

// duplex is one end of two pipes: unlike a socket's, its bytes come in any pieces,
// as those of a serial port do.
type duplex struct {
	in, out *os.File
}

func (d *duplex) Read(b []byte) (int, error)  { return d.in.Read(b) }
func (d *duplex) Write(b []byte) (int, error) { return d.out.Write(b) }
func (d *duplex) Close() error                { return errors.Join(d.in.Close(), d.out.Close()) }

func newDuplex(t testing.TB) (host, guest *duplex) {
	t.Helper()
	var ends [4]*os.File
	for i := 0; i < 4; i += 2 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ends[i], ends[i+1] = r, w
	}
	host, guest = &duplex{ends[0], ends[3]}, &duplex{ends[2], ends[1]}
	t.Cleanup(func() { host.Close(); guest.Close() })
	return host, guest
}

// echo serves connections by sending back what comes.
func echo(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

func listen(t testing.TB, s io.ReadWriteCloser) <-chan error {
	ended := make(chan error, 1)
	go func() {
		l, err := Listen(s)
		if err == nil {
			err = echo(l)
		}
		ended <- err
	}()
	return ended
}

// testTime bounds what has to happen, on a host of any speed.
const testTime = 2 * time.Minute

func connect(t testing.TB, s io.ReadWriteCloser) *Dialer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	d, err := Connect(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func wantEcho(t testing.TB, d *Dialer, size int) {
	t.Helper()
	conn, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := make([]byte, size)
	_, _ = rand.Read(sent)
	go conn.Write(sent)
	got := make([]byte, size)
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back changed (%v)", size, err)
	}
}

func TestManyConnections(t *testing.T) {
	host, guest := newDuplex(t)
	ended := listen(t, guest)
	d := connect(t, host)
	var work sync.WaitGroup
	for n := range 50 {
		work.Go(func() { wantEcho(t, d, 1+n*10_000) })
	}
	work.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, io.EOF) {
		t.Errorf("the guest's listener ended with %v", err)
	}
	_, err := d.Dial(t.Context())
	if sandbox.ClassOf(err) != sandbox.NotFound {
		t.Errorf("dialling a closed channel: %v", err)
	}
}

// TestHostComesFirst: greetings that nobody reads yet do no harm.
func TestHostComesFirst(t *testing.T) {
	host, guest := newDuplex(t)
	go func() {
		time.Sleep(5 * repeatAfter)
		listen(t, guest)
	}()
	wantEcho(t, connect(t, host), 1000)
}

func TestNoiseBeforeTheGuest(t *testing.T) {
	host, guest := newDuplex(t)
	noise := bytes.Repeat([]byte("[    0.000000] Linux version 6.1\r\n"), 100)
	noise = append(noise, mark[:]...)                                  // a greeting that is cut short
	noise = append(noise, greeting{here, newNonce()}.bytes()...)       // and one for another host
	noise = append(noise, greeting{ready, newNonce()}.bytes()[:30]...) // and a part of one
	go func() {
		guest.Write(noise)
		listen(t, guest)
	}()
	wantEcho(t, connect(t, host), 1000)
}

// TestGuestInTheMiddleOfFrames is what a host finds that restored a snapshot, or
// took over from one that died: the guest speaks to somebody who is gone.
func TestGuestInTheMiddleOfFrames(t *testing.T) {
	for name, before := range map[string][]byte{
		"between frames": nil,
		"in a header":    {0, 0, 0},
		// Data of a stream that it opened, of which most never comes.
		"in a body": append([]byte{0, 0, 0, 1, 0, 0, 0, 99, 0, 2, 0, 0}, "the beginning"...),
	} {
		t.Run(name, func(t *testing.T) {
			host, guest := newDuplex(t)
			go func() {
				for { // as aether-guest serves a port
					l, err := Listen(keepOpen{guest})
					if err != nil {
						return
					}
					_ = echo(l)
				}
			}()
			first := connect(t, &dying{host})
			wantEcho(t, first, 100)
			first.Close()
			if err := host.in.SetReadDeadline(time.Time{}); err != nil {
				t.Fatal(err)
			}
			if _, err := host.Write(before); err != nil {
				t.Fatal(err)
			}
			wantEcho(t, connect(t, host), 1000)
		})
	}
}

// keepOpen is a stream that outlives those who use it.
type keepOpen struct{ io.ReadWriter }

func (keepOpen) Close() error { return nil }

// dying is the stream of a host that dies: it says nothing any more, and the
// stream stays.
type dying struct{ *duplex }

func (d *dying) Close() error { return d.in.SetReadDeadline(time.Unix(1, 0)) }

func TestConnectGivesUp(t *testing.T) {
	host, _ := newDuplex(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, host); sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("nobody there: %v", err)
	}
	again, guest := newDuplex(t)
	guest.Close()
	if _, err := Connect(t.Context(), again); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("an end that is closed: %v", err)
	}
}

// frame is one of the multiplexer's.
func frame(kind byte, flags uint16, stream, length uint32, body string) []byte {
	b := make([]byte, headerSize, headerSize+len(body))
	b[typeAt] = kind
	binary.BigEndian.PutUint16(b[flagsAt:], flags)
	binary.BigEndian.PutUint32(b[4:], stream)
	binary.BigEndian.PutUint32(b[lengthAt:], length)
	return append(b, body...)
}

// TestHostileGuest sends what only a host may, and worse: the channel must end.
func TestHostileGuest(t *testing.T) {
	for name, bytes := range map[string][]byte{
		"opens a stream":             frame(1, 1, 2, 0, ""),
		"opens a stream with data":   frame(0, 1, 2, 3, "abc"),
		"pings":                      frame(pingFrame, 1, 0, 7, ""),
		"another version":            {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"another type":               frame(9, 0, 1, 0, ""),
		"more data than the window":  frame(0, 0, 1, 1<<30, ""),
		"half a frame, then nothing": frame(0, 0, 1, 100, "x")[:headerSize-1],
	} {
		t.Run(name, func(t *testing.T) {
			host, guest := newDuplex(t)
			opened := make(chan struct{})
			go func() {
				if answer(bufio.NewReader(guest), guest) != nil {
					return
				}
				<-opened
				guest.Write(bytes)
				if strings.HasPrefix(name, "half") {
					guest.Close()
				}
			}()
			d := connect(t, host)
			_, err := d.Dial(t.Context())
			close(opened)
			if err != nil {
				t.Fatal(err)
			}
			select {
			case <-d.Done():
			case <-time.After(testTime):
				t.Error("the channel lives on")
			}
		})
	}
}

// TestBoundedStreams: a guest that never closes anything does not make its host
// hold more and more.
func TestBoundedStreams(t *testing.T) {
	host, guest := newDuplex(t)
	go func() {
		if answer(bufio.NewReader(guest), guest) == nil {
			_, _ = io.Copy(io.Discard, guest)
		}
	}()
	d := connect(t, host)
	var last error
	for range maxStreams + 1 {
		if _, last = d.Dial(t.Context()); last != nil {
			break
		}
	}
	if sandbox.ClassOf(last) != sandbox.Exhausted {
		t.Errorf("%d connections to a guest that accepts none: %v", maxStreams+1, last)
	}
}

// TestPausedGuest: a guest that reads nothing for a while is no dead one.
func TestPausedGuest(t *testing.T) {
	host, guest := newDuplex(t)
	slow := &pausable{duplex: guest}
	listen(t, slow)
	d := connect(t, host)
	wantEcho(t, d, 100)
	slow.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		wantEcho(t, d, 1<<20)
	}()
	select {
	case <-done:
		t.Error("a paused guest answered")
	case <-time.After(300 * time.Millisecond):
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if conn, err := d.Dial(ctx); err == nil {
		conn.Close()
	}
	slow.mu.Unlock()
	<-done
}

type pausable struct {
	*duplex
	mu sync.Mutex
}

func (p *pausable) Read(b []byte) (int, error) {
	n, err := p.duplex.Read(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	return n, err
}

// FuzzHost feeds a host whatever a guest may send, before and after it answers.
func FuzzHost(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte("boot"), frame(0, 0, 1, 5, "hello"))
	f.Add(mark[:], frame(pingFrame, 1, 0, 0, ""))
	f.Add(greeting{here, nonce{}}.bytes(), frame(0, 4, 1, 0, ""))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		host, guest := newDuplex(t)
		go func() {
			go guest.Write(before)
			if answer(bufio.NewReader(guest), guest) == nil {
				go io.Copy(io.Discard, guest.in)
				guest.Write(after)
			}
			guest.out.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		d, err := Connect(ctx, host)
		if err != nil {
			return // the noise came in the middle of the answer
		}
		defer d.Close()
		if conn, err := d.Dial(ctx); err == nil {
			_ = conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = io.Copy(io.Discard, conn)
			conn.Close()
		}
	})
}

// FuzzGreeting looks for a greeting in any noise.
func FuzzGreeting(f *testing.F) {
	f.Add([]byte("noise"), []byte{})
	f.Add(mark[:10], mark[:])
	f.Add(mark[:], mark[:])
	f.Fuzz(func(t *testing.T, before, after []byte) {
		want := greeting{hello, newNonce()}
		text := append(append(bytes.Clone(before), want.bytes()...), after...)
		if err := await(bufio.NewReader(bytes.NewReader(text)), want); err != nil {
			// Noise that ends with the beginning of a greeting may swallow one, which
			// is why greetings are repeated. What comes after may swallow the next.
			again := append(append(bytes.Clone(text), want.bytes()...), want.bytes()...)
			if err := await(bufio.NewReader(bytes.NewReader(again)), want); err != nil {
				t.Errorf("%v: a greeting between %q and %q is missed", err, before, after)
			}
		}
	})
}

func Example() {
	ours, theirs := net.Pipe()
	go func() {
		listener, err := Listen(theirs)
		if err == nil {
			_ = echo(listener)
		}
	}()
	dialer, err := Connect(context.Background(), ours)
	if err != nil {
		panic(err)
	}
	defer dialer.Close()
	conn, err := dialer.Dial(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Fprintln(conn, "hello")
	line, _ := bufio.NewReader(conn).ReadString('\n')
	fmt.Print(line)
	// Output: hello
}

// A guest that was found stays there for the next who looks: it may be saved in
// between, and many may go on from it.
func TestAwait(t *testing.T) {
	host, guest := newDuplex(t)
	listen(t, guest)
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	for range 2 {
		if err := Await(ctx, host); err != nil {
			t.Fatal(err)
		}
	}
	d := connect(t, host)
	defer d.Close()
	conn, err := d.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestAwaitGivesUp(t *testing.T) {
	host, _ := newDuplex(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := Await(ctx, host); sandbox.ClassOf(err) != sandbox.Timeout {
		t.Errorf("nobody there: %v", err)
	}
}
