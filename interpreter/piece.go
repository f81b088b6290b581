package interpreter

import (
	"bytes"
	"strconv"
	"strings"
)

// A piece is
//
//	0x1e KEY(32) NONCE(32) MESSAGE(8) KIND(1) PLACE(1) LENGTH(4) BODY(LENGTH)
//
// KEY, NONCE, MESSAGE and LENGTH are lower-case hexadecimal. PLACE is where in its
// message the piece stands: "<" first, "-" within, ">" last, "=" alone.
const (
	recordMark = 0x1e
	tokenSize  = 32
	markSize   = 1 + tokenSize
	headSize   = markSize + tokenSize + 8 + 1 + 1 + 4
	maxPiece   = 4096
	maxBody    = maxPiece - headSize
)

// The kinds of messages.
const (
	beginKind = 'b' // on both streams
	endKind   = 'e' // on both streams; on standard output with a body
	waitKind  = 'w' // on standard output: node's synchronous code has ended
	valueKind = 'v'
	errorKind = 'x'
)

// piece is a part of a message. Its body is valid only until the next write.
type piece struct {
	nonce       string
	message     uint32
	kind        byte
	first, last bool
	body        []byte
}

// splitter takes pieces out of a stream. Whatever is not exactly a piece is
// output, so that no stream is malformed; what may become a piece waits for the
// bytes that decide it.
type splitter struct {
	mark   []byte // what every piece starts with
	output func([]byte)
	piece  func(piece)
	held   []byte
}

func newSplitter(key string, output func([]byte), piece func(piece)) *splitter {
	return &splitter{mark: append([]byte{recordMark}, key...), output: output, piece: piece}
}

// Write takes more of the stream. It never fails.
func (s *splitter) Write(data []byte) (int, error) {
	rest := data
	if len(s.held) > 0 {
		rest = append(s.held, data...)
	}
	rest = s.split(rest)
	// A copy: the caller's bytes, and the room of a long chunk, are not ours.
	s.held = append([]byte(nil), rest...)
	return len(data), nil
}

// flush gives what waited as output: the stream is over.
func (s *splitter) flush() {
	s.emit(s.held)
	s.held = nil
}

// split handles all that can be decided and gives the rest.
func (s *splitter) split(data []byte) []byte {
	for {
		at := s.find(data)
		s.emit(data[:at])
		data = data[at:]
		p, size, whole := parsePiece(data, s.mark)
		switch {
		case !whole:
			return data
		case size == 0:
			s.emit(data[:1])
			size = 1
		default:
			s.piece(p)
		}
		data = data[size:]
	}
}

func (s *splitter) emit(data []byte) {
	if len(data) > 0 {
		s.output(data)
	}
}

// find says where a piece starts or may start; the length if nowhere.
func (s *splitter) find(data []byte) int {
	if at := bytes.Index(data, s.mark); at >= 0 {
		return at
	}
	for at := max(0, len(data)-len(s.mark)+1); at < len(data); at++ {
		if bytes.HasPrefix(s.mark, data[at:]) {
			return at
		}
	}
	return len(data)
}

// parsePiece reads the piece at the start of data. It is not whole if more bytes
// have to decide; a size of zero says that it is no piece.
func parsePiece(data, mark []byte) (p piece, size int, whole bool) {
	if len(data) < headSize {
		return piece{}, 0, len(data) > 0 && !bytes.HasPrefix(mark, data[:min(len(data), len(mark))])
	}
	if !bytes.HasPrefix(data, mark) {
		return piece{}, 0, true
	}
	head := string(data[markSize:headSize])
	message, badMessage := parseHex(head[tokenSize : tokenSize+8])
	length, badLength := parseHex(head[tokenSize+10:])
	place := head[tokenSize+9]
	if badMessage || badLength || length > maxBody || strings.IndexByte("<->=", place) < 0 {
		return piece{}, 0, true
	}
	size = headSize + int(length)
	if len(data) < size {
		return piece{}, 0, false
	}
	return piece{nonce: head[:tokenSize], message: message, kind: head[tokenSize+8], first: place == '<' || place == '=',
		last: place == '>' || place == '=', body: data[headSize:size]}, size, true
}

func parseHex(text string) (value uint32, bad bool) {
	for _, c := range []byte(text) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0, true
		}
	}
	n, err := strconv.ParseUint(text, 16, 32)
	return uint32(n), err != nil
}
