package gateway

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"aether/sandbox"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// wideRate and wideBurst bound how many questions a second go out about names that a
	// rule allows without naming them: each can carry something out.
	wideRate  = 10
	wideBurst = 100
	// lifetimeOfAnswers is in seconds. The addresses are good for as long as the sandbox
	// lives, unless it asks for thousands of names.
	lifetimeOfAnswers = 60
	maxQuestion       = 4 << 10
	dnsIdle           = 30 * time.Second // of a connection of TCP
	datagramIdle      = 2 * time.Second  // programs ask from another port each time
	maxAnswers        = 1000             // by one connection
)

// answer gives the answer to a question, or nil for what is none.
func (g *Gateway) answer(question []byte) []byte { return answerTo(question, g.opts.Logger, g.fill) }

// answerTo answers a question with what fill puts into the reply.
func answerTo(question []byte, log *slog.Logger, fill func(*dnsmessage.Message, dnsmessage.Question)) []byte {
	var parser dnsmessage.Parser
	head, err := parser.Start(question)
	if err != nil || head.Response {
		return nil
	}
	asked, err := parser.Question()
	if err != nil {
		return pack(dnsmessage.Message{Header: dnsmessage.Header{ID: head.ID, Response: true, RCode: dnsmessage.RCodeFormatError}}, log)
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, OpCode: head.OpCode, RecursionDesired: head.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{asked},
	}
	if head.OpCode != 0 || asked.Class != dnsmessage.ClassINET {
		reply.RCode = dnsmessage.RCodeNotImplemented
		return pack(reply, log)
	}
	fill(&reply, asked)
	return pack(reply, log)
}

func pack(m dnsmessage.Message, log *slog.Logger) []byte {
	text, err := m.Pack()
	if err != nil {
		log.Debug("gateway: an answer cannot be written", "err", err)
		return nil
	}
	return text
}

// fill puts into a reply what there is to say about a name.
func (g *Gateway) fill(reply *dnsmessage.Message, asked dnsmessage.Question) {
	if asked.Type == dnsmessage.TypePTR {
		g.fillPointer(reply, asked)
		return
	}
	name, err := sandbox.ParseHostName(asked.Name.String())
	if err != nil {
		reply.RCode = dnsmessage.RCodeNameError
		g.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "dns", Reason: "it is no name of a host"})
		return
	}
	if reply.RCode = g.exists(name); reply.RCode != dnsmessage.RCodeSuccess || asked.Type != dnsmessage.TypeA {
		return // of other types there is nothing: no other addresses, and no keys
	}
	reply.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: lifetimeOfAnswers},
		Body:   &dnsmessage.AResource{A: g.names.address(name).As4()},
	}}
}

// exists says whether a name is allowed and has an address.
func (g *Gateway) exists(name string) dnsmessage.RCode {
	_, code := lookups{ctx: g.ctx, policy: *g.policy.Load(), way: g.opts.Way, asked: g.asked, tell: g.tell}.look(name)
	return code
}

// fillPointer says which name an address means.
func (g *Gateway) fillPointer(reply *dnsmessage.Message, asked dnsmessage.Question) {
	reply.RCode = dnsmessage.RCodeNameError
	addr, ok := reversed(asked.Name.String())
	if !ok {
		return
	}
	name, ok := g.names.name(addr)
	if !ok {
		return
	}
	to, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return
	}
	reply.RCode = dnsmessage.RCodeSuccess
	reply.Answers = []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: asked.Name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET, TTL: lifetimeOfAnswers},
		Body:   &dnsmessage.PTRResource{PTR: to},
	}}
}

// reversed is the address that a name of in-addr.arpa is about.
func reversed(name string) (netip.Addr, bool) {
	text, ok := strings.CutSuffix(strings.ToLower(name), ".in-addr.arpa.")
	if !ok {
		return netip.Addr{}, false
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(parts[3] + "." + parts[2] + "." + parts[1] + "." + parts[0])
	return addr, err == nil
}

// serveDNS answers what comes by a connection of TCP.
func (g *Gateway) serveDNS(conn net.Conn) {
	defer conn.Close()
	defer g.closeWithGateway(conn)()
	answerStream(conn, g.answer)
}

func answerStream(conn net.Conn, answer func(question []byte) []byte) {
	var size [2]byte
	for range maxAnswers {
		if err := conn.SetDeadline(time.Now().Add(dnsIdle)); err != nil {
			return
		}
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		length := binary.BigEndian.Uint16(size[:])
		if length > maxQuestion {
			return
		}
		question := make([]byte, length)
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		reply := answer(question)
		if reply == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}
