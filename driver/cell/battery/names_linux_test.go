package battery_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// records are the names of the world that have always the same addresses.
var records = map[string][]string{
	"ok.example":               {okay},
	"shared.example":           {okay},
	"evil.example":             {evil},
	"doh.example":              {"93.184.0.3"},
	"meta.example":             {metadata},
	"mapped.example":           {"::ffff:" + metadata},
	"private.example":          {"10.99.0.1"},
	"ours.example":             {ours},
	"six.example":              {"2606:2800::1"},
	"xn--bcher-kva.example":    {"93.184.0.5"},
	"nat64.example":            {"64:ff9b::a9fe:a9fe"},
	"registry.example":         {"93.184.0.6"},
	"database.example":         {"93.184.0.7"},
	"files.example":            {"93.184.0.8"},
	"secret.ok-wide.example":   {evil},
	"printer.internal.example": {"10.99.0.9"},
}

// nameServer knows all names of the world, and which it was asked for.
type nameServer struct {
	seenNames
}

type seenNames struct {
	mu   sync.Mutex
	seen []string
}

func (s *seenNames) note(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, name)
}

// count is how many questions were asked that have a text in them.
func (s *seenNames) count(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range s.seen {
		if strings.Contains(name, part) {
			n++
		}
	}
	return n
}

// different is how many names below one were asked for.
func (s *seenNames) different(below string) int {
	all := map[string]bool{}
	for _, name := range s.since(0) {
		all[name] = all[name] || strings.HasSuffix(name, "."+below)
	}
	n := 0
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}

// since are the names of all questions but so many.
func (s *seenNames) since(before int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen[before:])
}

func newNameServer() *nameServer { return &nameServer{} }

// addresses are those of a name. The one of rebind.example changes: it is a public one
// for the first question, and metadata's for all that follow.
func (s *nameServer) addresses(name string) (list []netip.Addr) {
	texts := records[name]
	switch {
	case texts != nil:
	case name == "rebind.example" && s.count(name) <= 2: // of both versions
		texts = []string{okay}
	case name == "rebind.example":
		texts = []string{metadata}
	case strings.HasSuffix(name, ".evil.example"), strings.HasSuffix(name, ".ok-wide.example"), strings.ContainsRune(name, 0):
		texts = []string{evil}
	}
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

func (s *nameServer) answer(question []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(question)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	s.note(name)
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: head.ID, Response: true, RecursionAvailable: true}, Questions: []dnsmessage.Question{q}}
	list := s.addresses(name)
	if len(list) == 0 {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range list {
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}
		switch {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	text, err := m.Pack()
	if err != nil {
		return nil
	}
	return text
}

func (w *world) serveNames(at string) {
	w.Helper()
	conn, err := net.ListenPacket("udp", at+":53")
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 4096); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if reply := w.names.answer(buf[:n]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
}

func (s *nameServer) serveStream(c net.Conn) {
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		reply := s.answer(question)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

// hide has servers of TLS understand hellos that hide their names: see RFC 9849. What they
// show is ok.example.
func (w *world) hide() {
	w.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	public := key.PublicKey().Bytes()
	contents := append([]byte{7, 0, 0x20, 0, byte(len(public))}, public...) // X25519
	contents = append(contents, 0, 4, 0, 1, 0, 1, 32, byte(len("ok.example")))
	contents = append(append(contents, "ok.example"...), 0, 0)
	config := append([]byte{0xfe, 0x0d, 0, byte(len(contents))}, contents...)
	w.hidden = append([]byte{0, byte(len(config))}, config...)
	w.tls.EncryptedClientHelloKeys = []tls.EncryptedClientHelloKey{{Config: config, PrivateKey: key.Bytes(), SendAsRetry: true}}
	w.tls.MinVersion = tls.VersionTLS12
}
