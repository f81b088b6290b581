package gateway

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"aether/sandbox"
)

// kind is what the first bytes of a sandbox's connection are.
type kind int

const (
	undecided kind = iota // more has to be seen
	hello                 // of TLS
	request               // of HTTP, or what a lenient server could take for one
	opaque                // something else, which names no host
)

// requestPorts are those at which nothing is expected but HTTP: whatever is not encrypted
// has to be a request there, by the letter.
var requestPorts = []uint16{httpPort, 3128, 8000, 8008, 8080, 8888}

// methods are words that servers take for the beginning of a request even if the rest of
// its line is not by the letter. PROXY is none: such a line stands before one.
var methods = []string{
	"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "QUERY",
	"PROPFIND", "PROPPATCH", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "SEARCH", "REPORT", "MKCALENDAR",
}

const (
	blanks = " \t\v\f\r\n"
	// proxied is how version 2 of the line PROXY begins.
	proxied = "\r\n\r\n\x00\r\nQUIT\n"
)

// sniff says what the first bytes of a connection are. The sandbox chooses how they come
// in pieces: what is undecided stays so until the line has ended. Until its first word has,
// the bytes are harmless: no server acts on them.
//
// A line is a request if it has "HTTP/" in it, in any case, or begins with a method and a
// path or a URL, or with CONNECT or PROXY and another word. Empty lines and blanks before
// it do not count. So "GET /", "get\thttp://host/" and "X1 / http/1.0" are requests; "PING",
// "get key" of memcached, "NICK name" and "CONNECT" alone on its line are none.
func sniff(seen []byte, ended bool) (k kind, harmless bool) {
	text := bytes.TrimLeft(seen, blanks)
	line, _, whole := bytes.Cut(text, []byte("\n"))
	word := line
	if end := bytes.IndexAny(line, blanks); end >= 0 {
		word = line[:end]
	}
	switch k := recordKind(seen); {
	case k == hello, k == undecided && !ended && len(seen) > 0:
		return k, false
	case bytes.HasPrefix(seen, []byte(proxied)):
		return request, false
	case !ended && strings.HasPrefix(proxied, string(seen)):
		return undecided, true
	case len(text) > 0 && !isToken(word), len(text) == 0 && ended:
		return opaque, false
	case whole || ended:
		return lineKind(string(line)), false
	case len(seen) >= maxHello:
		return request, false // which will be refused
	}
	return undecided, len(word) == len(line)
}

// recordKind says whether a connection begins with a record of TLS. One that is no hello can
// stand before it: servers ignore warnings.
func recordKind(seen []byte) kind {
	switch {
	case len(seen) == 0:
		return undecided
	case seen[0] < recordFirst || seen[0] > recordLast:
		return opaque
	case seen[0] == recordHandshake, len(seen) > 1 && seen[1] == recordMajor:
		return hello
	case len(seen) == 1:
		return undecided
	}
	return opaque
}

func lineKind(line string) kind {
	words := strings.Fields(line)
	switch {
	case strings.Contains(strings.ToUpper(line), "HTTP/"):
		return request
	case len(words) < 2:
		return opaque
	}
	switch first, second := strings.ToUpper(words[0]), words[1]; {
	case first == "CONNECT", first == "PROXY":
		return request
	case slices.Contains(methods, first) && (strings.HasPrefix(second, "/") || strings.Contains(second, "://")):
		return request
	}
	return opaque
}

// isToken says whether a word can be a method: see RFC 9110, section 5.6.2.
func isToken(word []byte) bool {
	for _, c := range word {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return true
}

// errSlow says that a line was begun and not ended.
var errSlow = errors.New("the first line has not ended in time")

// look reads the first words of a connection until it is known what they are. Those that
// are harmless are passed on at once, for whoever waits for an answer to them.
type look struct {
	*carried
	seen   bytes.Buffer
	passed int
	ended  bool
	kind   kind
	buf    [4 << 10]byte
}

// find reads until there is a verdict, or the host has spoken.
func (l *look) find() error {
	for {
		k, harmless := l.verdict()
		if k != undecided {
			l.kind = k
			return l.inner.SetReadDeadline(time.Time{})
		}
		if err := l.wait(harmless); err != nil {
			return err
		}
	}
}

func (l *look) verdict() (k kind, harmless bool) {
	k, harmless = sniff(l.seen.Bytes(), l.ended)
	switch {
	case l.spoken.Load():
		return opaque, false
	case l.seen.Len() > 0 && k != hello && slices.Contains(requestPorts, l.target.port):
		return request, false
	}
	return k, harmless
}

// wait passes on what is harmless, and reads more.
func (l *look) wait(harmless bool) error {
	if left := l.left(); harmless && len(left) > 0 {
		if _, err := l.outer.Write(left); err != nil {
			return err
		}
		l.passed += len(left)
		l.sent.Add(int64(len(left)))
	} else if len(left) > 0 {
		if err := l.inner.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
			return err
		}
	}
	n, err := l.inner.Read(l.buf[:])
	l.seen.Write(l.buf[:n])
	var late net.Error
	switch {
	case errors.Is(err, io.EOF):
		l.ended = true // pass finds it again
		return nil
	case errors.As(err, &late) && late.Timeout():
		l.gateway.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "tcp", Name: l.target.name, Address: l.target.address, Port: l.target.port, Reason: errSlow.Error()})
		return errSlow
	}
	return err
}

// left is what was seen and not passed on.
func (l *look) left() []byte { return l.seen.Bytes()[l.passed:] }

// leave ends the connection to the host, which requests do not use: politely, unless it has
// heard the beginning of a line, which it must not take for all of it.
func (l *look) leave() {
	if l.passed > 0 {
		abort(l.outer)
		return
	}
	l.outer.Close()
}
