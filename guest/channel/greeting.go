package channel

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
)

// The messages by which two ends find each other. Each is a mark that does not
// occur by chance, a kind and the number that the host chose for this meeting.
const (
	hello byte = 'h' // host: is there a guest?
	here  byte = 'a' // guest: there is
	begin byte = 'b' // host: no greeting comes after this; frames do
	ready byte = 'r' // guest: the same
)

// mark begins with a byte that begins no frame, so that a guest in the middle of
// frames notices it.
var mark = [16]byte{0xae, 0x74, 0x68, 0x65, 0x72, 0x01, 0xd7, 0x3c, 0x91, 0xe2, 0x5b, 0x08, 0xc6, 0xaf, 0x10, 0x83}

type nonce [16]byte

type greeting struct {
	kind byte
	of   nonce
}

const greetingSize = len(mark) + 1 + len(nonce{})

func newNonce() (n nonce) {
	_, _ = rand.Read(n[:]) // never fails
	return n
}

func (g greeting) bytes() []byte {
	return append(append(append(make([]byte, 0, greetingSize), mark[:]...), g.kind), g.of[:]...)
}

func (g greeting) send(w io.Writer) error {
	_, err := w.Write(g.bytes())
	return err
}

// nextGreeting skips everything that is none.
func nextGreeting(r *bufio.Reader) (greeting, error) {
	var window []byte
	for {
		b, err := r.ReadByte()
		if err != nil {
			return greeting{}, err
		}
		if len(window) == greetingSize {
			copy(window, window[1:])
			window = window[:greetingSize-1]
		}
		window = append(window, b)
		if len(window) == greetingSize && bytes.HasPrefix(window, mark[:]) {
			g := greeting{kind: window[len(mark)]}
			copy(g.of[:], window[len(mark)+1:])
			return g, nil
		}
	}
}

// await skips all greetings but one.
func await(r *bufio.Reader, want greeting) error {
	for {
		got, err := nextGreeting(r)
		if err != nil || got == want {
			return err
		}
	}
}
