package tool

import (
	"unicode/utf8"

	"aether/sandbox"
)

const (
	// defaultBytes is how much of an output is shown unless a call says otherwise, and
	// maxBytes the most that it may ask for.
	defaultBytes = 16 << 10
	maxBytes     = 256 << 10
	// keptOutput is how much of each output of a command is kept.
	keptOutput = 1 << 20
)

// Stream is a part of what was written.
type Stream struct {
	// Text is it; or Base64 is, where it is no UTF-8.
	Text   string `json:"text"`
	Base64 []byte `json:"base64,omitempty"`
	// Offset is where the part begins, of Size bytes that are kept. Truncated says that
	// there is more: command_output with another offset gives it. Dropped says that what
	// came after the first MiB is lost.
	Offset    int  `json:"offset,omitempty"`
	Size      int  `json:"size"`
	Truncated bool `json:"truncated,omitempty"`
	Dropped   bool `json:"dropped,omitempty"`
}

// window is the part of an output that is shown: from an offset on, or the end.
type window struct {
	offset *int
	most   int
}

func newWindow(offset *int, most int) (window, error) {
	if most < 0 || most > maxBytes {
		return window{}, sandbox.Invalidf("max_bytes", "%d is not between 1 and %d", most, maxBytes)
	}
	if most == 0 {
		most = defaultBytes
	}
	if offset != nil && *offset < 0 {
		return window{}, sandbox.Invalidf("offset", "%d is negative", *offset)
	}
	return window{offset, most}, nil
}

// of is the part of an output, of which more may be lost. Letters are whole.
func (w window) of(all []byte, dropped bool) Stream {
	from := max(0, len(all)-w.most)
	if w.offset != nil {
		from = min(*w.offset, len(all))
	}
	to := min(len(all), from+w.most)
	part := all[from:to]
	if utf8.Valid(all) {
		for from > 0 && len(part) > 0 && !utf8.RuneStart(part[0]) {
			from, part = from+1, part[1:]
		}
		part = wholeLetters(part)
	}
	s := Stream{Offset: from, Size: len(all), Truncated: len(part) < len(all) || dropped, Dropped: dropped}
	if utf8.Valid(part) {
		s.Text = string(part)
	} else {
		s.Base64 = part
	}
	return s
}

// wholeLetters drops a letter at the end that was cut.
func wholeLetters(text []byte) []byte {
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		if utf8.RuneStart(text[len(text)-cut]) {
			if !utf8.FullRune(text[len(text)-cut:]) {
				return text[:len(text)-cut]
			}
			return text
		}
	}
	return text
}

// head keeps the first of what is written to it, and takes the rest.
type head struct {
	kept    []byte
	dropped bool
}

// Write implements io.Writer.
func (h *head) Write(b []byte) (int, error) {
	room := min(len(b), keptOutput-len(h.kept))
	h.kept = append(h.kept, b[:room]...)
	h.dropped = h.dropped || len(b) > room
	return len(b), nil
}
