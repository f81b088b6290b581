package interpreter

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

var (
	testKey   = strings.Repeat("0123456789abcdef", 2)
	testNonce = strings.Repeat("f", 32)
)

func encode(p piece) string {
	place := map[[2]bool]string{{true, true}: "=", {true, false}: "<", {false, false}: "-", {false, true}: ">"}[[2]bool{p.first, p.last}]
	return fmt.Sprintf("\x1e%s%s%08x%s%s%04x%s", testKey, p.nonce, p.message, []byte{p.kind}, place, len(p.body), p.body)
}

// recorder writes down what a splitter gives: pieces as they were sent.
type recorder struct {
	stream bytes.Buffer
	pieces []piece
	output bytes.Buffer
}

func (r *recorder) splitter() *splitter {
	return newSplitter(testKey, func(data []byte) {
		r.stream.Write(data)
		r.output.Write(data)
	}, func(p piece) {
		p.body = bytes.Clone(p.body)
		r.pieces = append(r.pieces, p)
		r.stream.WriteString(encode(p))
	})
}

func TestPieceRoundTrip(t *testing.T) {
	for _, body := range []string{"", "x", "\x1e" + testKey, strings.Repeat("y", maxBody)} {
		for _, want := range []piece{{testNonce, 7, 'v', true, true, []byte(body)}, {testNonce, 0xffffffff, 0, false, true, []byte(body)}} {
			var r recorder
			r.splitter().Write([]byte("before" + encode(want) + "after"))
			if r.output.String() != "beforeafter" || len(r.pieces) != 1 || encode(r.pieces[0]) != encode(want) {
				t.Errorf("%q comes back as %v with output %q", encode(want), r.pieces, r.output.String())
			}
		}
	}
}

// TestWhatIsNoPieceIsOutput breaks a piece in every place.
func TestWhatIsNoPieceIsOutput(t *testing.T) {
	good := encode(piece{testNonce, 1, 'v', true, true, []byte("{}")})
	for at := range headSize {
		if at >= markSize && at < markSize+tokenSize || at == headSize-6 {
			continue // any nonce and kind will do
		}
		broken := good[:at] + "?" + good[at+1:]
		var r recorder
		s := r.splitter()
		s.Write([]byte(broken + good))
		if r.output.String() != broken || len(r.pieces) != 1 {
			t.Errorf("broken at %d: output %q, %d pieces", at, r.output.String(), len(r.pieces))
		}
	}
	long := strings.Replace(good, "0002{}", "0fb2", 1) + strings.Repeat("z", maxBody+1)
	var r recorder
	r.splitter().Write([]byte(long))
	if r.output.String() != long {
		t.Error("a piece larger than any is taken for one")
	}
}

func TestSplitAnywhere(t *testing.T) {
	stream := "a\x1e" + testKey[:10] + encode(piece{testNonce, 1, 'b', true, true, nil}) + "\x1e\x1e" + encode(piece{testNonce, 2, 'v', true, true, []byte("body")}) + "\x1e" + testKey
	for size := 1; size <= len(stream); size++ {
		var r recorder
		s := r.splitter()
		for at := 0; at < len(stream); at += size {
			s.Write([]byte(stream[at:min(at+size, len(stream))]))
		}
		s.flush()
		if r.stream.String() != stream || len(r.pieces) != 2 {
			t.Errorf("in chunks of %d: %q, %d pieces", size, r.stream.String(), len(r.pieces))
		}
	}
}

func TestSplitterHoldsLittle(t *testing.T) {
	var r recorder
	s := r.splitter()
	s.Write(bytes.Repeat([]byte("x"), 1<<20))
	if len(s.held) != 0 || r.output.Len() != 1<<20 {
		t.Errorf("%d bytes wait", len(s.held))
	}
	s.Write([]byte(strings.Replace(encode(piece{testNonce, 1, 'v', true, true, nil}), "=0000", "=0fb1", 1)))
	s.Write(bytes.Repeat([]byte("y"), maxBody-1))
	if len(s.held) != maxPiece-1 || cap(s.held) > 2*maxPiece {
		t.Errorf("%d bytes wait in %d", len(s.held), cap(s.held))
	}
}

// FuzzSplitter: nothing is lost, added or reordered, whatever the stream and
// wherever it is cut, and the cut changes nothing.
func FuzzSplitter(f *testing.F) {
	good := encode(piece{testNonce, 1, 'v', true, true, []byte(`{"data":{}}`)})
	for _, seed := range []string{"", "plain", good, good + good[:40], "\x1e" + good, good[:len(good)-1] + "\x1e", strings.Repeat("\x1e", 100), good[:headSize-4] + "ffff" + good} {
		f.Add([]byte(strings.Replace(seed, "v=", "\xc8=", 1)), uint16(25)) // a kind of no letter
		f.Add([]byte(seed), uint16(1))
		f.Add([]byte(seed), uint16(37))
	}
	f.Fuzz(func(t *testing.T, stream []byte, size uint16) {
		var whole, cut recorder
		s := whole.splitter()
		s.Write(stream)
		s.flush()
		s = cut.splitter()
		for rest := stream; len(rest) > 0; {
			n := min(max(1, int(size)), len(rest))
			s.Write(rest[:n])
			rest = rest[n:]
		}
		s.flush()
		if !bytes.Equal(whole.stream.Bytes(), stream) || !bytes.Equal(cut.stream.Bytes(), stream) || len(whole.pieces) != len(cut.pieces) {
			t.Errorf("%q comes back as %q, and cut by %d as %q", stream, whole.stream.Bytes(), size, cut.stream.Bytes())
		}
	})
}
