package docker

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
)

// keptErrors is what a driver keeps of the standard error.
const keptErrors = 4 << 10

func frame(kind byte, text string) []byte {
	header := binary.BigEndian.AppendUint32([]byte{kind, 0, 0, 0}, uint32(len(text)))
	return append(header, text...)
}

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		frames [][]byte
		out    string
		errors string
		fails  bool
	}{
		"nothing":       {},
		"output":        {frames: [][]byte{frame(outFrame, "one"), frame(outFrame, ""), frame(outFrame, " two")}, out: "one two"},
		"both":          {frames: [][]byte{frame(errFrame, "bad"), frame(outFrame, "good"), frame(errFrame, "ly")}, out: "good", errors: "badly"},
		"much error":    {frames: [][]byte{frame(errFrame, strings.Repeat("x", 3*keptErrors)+"end")}, errors: strings.Repeat("x", keptErrors-3) + "end"},
		"unknown kind":  {frames: [][]byte{frame(7, "what")}, fails: true},
		"cut header":    {frames: [][]byte{{outFrame, 0, 0}}, fails: true},
		"cut in errors": {frames: [][]byte{frame(errFrame, "some")[:9]}, errors: "s", fails: false},
	} {
		s := &stream{from: bytes.NewReader(bytes.Join(c.frames, nil))}
		out, err := io.ReadAll(s)
		if string(out) != c.out || (err != nil) != c.fails || s.said.String() != c.errors {
			t.Errorf("%s: %q and %q, %v", name, out, s.said.String(), err)
		}
	}
}

// FuzzFrames: whatever comes, no more is given out or kept than came in.
func FuzzFrames(f *testing.F) {
	f.Add(frame(outFrame, "text"))
	f.Add(append(frame(errFrame, "bad"), frame(outFrame, "")...))
	f.Add([]byte{outFrame, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &stream{from: bytes.NewReader(data)}
		out, _ := io.ReadAll(s)
		if len(out) > len(data) || len(s.said.String()) > min(len(data), keptErrors) {
			t.Errorf("%d bytes became %d and %d", len(data), len(out), len(s.said.String()))
		}
	})
}
