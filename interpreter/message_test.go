package interpreter

import (
	"bytes"
	"strings"
	"testing"
)

func part(number uint32, kind byte, place, body string) piece {
	return piece{nonce: testNonce, message: number, kind: kind, first: place == "<" || place == "=", last: place == ">" || place == "=", body: []byte(body)}
}

func TestAssembler(t *testing.T) {
	limits := Limits{ValueBytes: 6, TotalBytes: 12}
	for _, c := range []struct {
		name    string
		pieces  []piece
		want    string
		dropped int64
	}{
		{"one piece", []piece{part(1, 'v', "=", "abc")}, "abc", 0},
		{"three pieces", []piece{part(1, 'v', "<", "ab"), part(1, 'v', "-", "cd"), part(1, 'v', ">", "ef")}, "abcdef", 0},
		{"two at once", []piece{part(1, 'v', "<", "a"), part(2, 'v', "<", "x"), part(1, 'v', ">", "b"), part(2, 'v', ">", "y")}, "ab xy", 0},
		{"one too large", []piece{part(1, 'v', "<", "abcd"), part(1, 'v', "-", "efg"), part(1, 'v', ">", "h"), part(2, 'v', "=", "ok")}, "ok", 1},
		{"too much together", []piece{part(1, 'v', "=", "abcdef"), part(2, 'v', "=", "ghijk"), part(3, 'v', "=", "lm")}, "abcdef ghijk", 1},
		{"errors have room of their own", []piece{part(1, 'v', "=", "abcdef"), part(2, 'v', "=", "ghijkl"), part(3, 'x', "=", "a long error")}, "abcdef ghijkl a long error", 0},
		{"no beginning", []piece{part(1, 'v', "-", "ab"), part(1, 'v', ">", "cd")}, "", 0},
		{"begun again", []piece{part(1, 'v', "<", "ab"), part(1, 'v', "<", "cd"), part(1, 'v', ">", "ef")}, "cdef", 1},
		{"another kind in the middle", []piece{part(1, 'v', "<", "ab"), part(1, 'x', ">", "cd")}, "", 0},
		{"an unknown kind", []piece{part(1, 'q', "=", "ab")}, "", 0},
	} {
		a := newAssembler(limits)
		var got []string
		for _, p := range c.pieces {
			if m := a.add(p); m != nil {
				got = append(got, string(m.body))
			}
		}
		if strings.Join(got, " ") != c.want || a.dropped.Load() != c.dropped {
			t.Errorf("%s: got %q and %d dropped, want %q and %d", c.name, got, a.dropped.Load(), c.want, c.dropped)
		}
	}
}

func TestAssemblerIsBounded(t *testing.T) {
	a := newAssembler(Limits{}.withDefaults())
	body := bytes.Repeat([]byte("x"), maxBody)
	for n := range uint32(100_000) {
		a.add(piece{message: n % 5000, kind: 'v', first: n < 5000, body: body})
	}
	kept := 0
	for _, m := range a.open {
		kept += len(m.body)
	}
	if len(a.open) > maxOpen || kept > 64<<20 || a.dropped.Load() != 5000-maxOpen {
		t.Errorf("%d messages with %d bytes are open, %d dropped", len(a.open), kept, a.dropped.Load())
	}
}

// FuzzValue: hostile values never panic and never have more than was sent.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{"", "null", "{}", `{"main":true,"data":{"text/plain":"x","image/png":"iVBO"}}`, `{"data":{"image/png":5,"text/html":[]}}`, `{"data":{"a":{"b":[`, strings.Repeat("[", 10000)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		v, ok := parseValue(body)
		if ok && (len(v.PNG)+len(v.JSON)+len(v.Chart) > len(body) || len(v.Extra) > maxForms) {
			t.Errorf("%q becomes %+v", body, v)
		}
	})
}
