package gateway

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"aether/sandbox"
)

// What a sandbox says first is looked at for so long, and so many bytes of it.
const (
	helloTime = 30 * time.Second
	maxHello  = 64 << 10
)

var (
	errForged = errors.New("it is for another name")
	errStop   = errors.New("enough was read")
)

// check reads the first words of a connection, as many as it takes to tell whether they
// are for the name that was asked for, and gives those that are left to be passed on. Words
// that name nobody are anybody's. Requests of HTTP that are not encrypted are passed on
// here, to the last: it gives nil then.
func (g *Gateway) check(c *carried) (first []byte, err error) {
	l := &look{carried: c}
	if err := l.find(); err != nil {
		return nil, err
	}
	switch l.kind {
	case hello:
		if err := g.checkTLS(c, &l.seen); err != nil {
			return nil, err
		}
	case request:
		c.taken.Store(true)
		l.leave()
		c.decide()
		e := &exchange{gateway: g, target: c.target, upstream: &upstream{gateway: g, target: c.target, free: true}}
		e.serve(&replay{Conn: c.paced(), seen: &l.seen, through: true})
		return nil, nil
	}
	return slices.Clone(l.left()), nil
}

func (g *Gateway) checkTLS(c *carried, seen *bytes.Buffer) error {
	t := c.target
	hello, err := readHello(c.inner, seen)
	if err != nil {
		g.tell(sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "tls", Name: t.name, Address: t.address, Port: t.port, Reason: "the hello cannot be read"})
		return err
	}
	return g.checkHello(t, hello)
}

// Kinds of records of TLS, which are their first bytes, and the second byte of all of them.
const (
	recordFirst     = 20
	recordHandshake = 22
	recordLast      = 24
	recordMajor     = 3
)

// encryptedHello is the extension that hides the name which a hello is for.
const encryptedHello = 0xfe0d

// checkHello refuses a hello for another name than the one that was asked for, and one
// that hides its name, unless the policy allows every name.
func (g *Gateway) checkHello(t target, hello *tls.ClientHelloInfo) error {
	d := sandbox.NetworkDecision{Verdict: sandbox.VerdictDenied, Kind: "tls", Name: t.name, Address: t.address, Port: t.port}
	p := g.policy.Load()
	if hello.ServerName == "" {
		if t.name == "" || p.Name(t.name, t.port, false).Allowed {
			return nil // whoever is there by that name
		}
	}
	name, err := sandbox.ParseHostName(hello.ServerName)
	switch {
	case err != nil:
		d.Reason = "the hello has no name that can be read"
	case t.name != "" && name != t.name:
		d.Reason = "the hello is for " + name
	case !p.Name(name, t.port, false).Allowed && t.name == "" && len(p.Deny) > 0:
		d.Reason = "the hello is for " + name
	case t.name == "" && p.Ruled(name, t.port):
		d.Reason = "the hello is for " + name + ", which rules are about: it is reached by its name alone"
	case t.name != "" && !p.Wide(t.name) && hides(hello):
		d.Reason = "the hello hides its name"
	default:
		return nil
	}
	g.tell(d)
	return errForged
}

func hides(hello *tls.ClientHelloInfo) bool {
	for _, e := range hello.Extensions {
		if e == encryptedHello {
			return true
		}
	}
	return false
}

// readHello has crypto/tls read a hello, of which it sees a copy: nothing is answered.
func readHello(from net.Conn, seen *bytes.Buffer) (hello *tls.ClientHelloInfo, err error) {
	if err := from.SetReadDeadline(time.Now().Add(helloTime)); err != nil {
		return nil, err
	}
	tap := &replay{Conn: from, seen: seen}
	config := &tls.Config{MinVersion: tls.VersionTLS10, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h
		return nil, errStop
	}}
	err = tls.Server(tap, config).Handshake()
	if hello == nil {
		return nil, errors.Join(errors.New("no hello"), err)
	}
	return hello, from.SetReadDeadline(time.Time{})
}

// replay reads what was seen first, and then what comes. One that is not through notes
// what it reads, and writes nothing.
type replay struct {
	net.Conn
	seen    *bytes.Buffer
	at      int
	through bool
}

func (r *replay) Read(b []byte) (int, error) {
	if r.at < r.seen.Len() {
		n := copy(b, r.seen.Bytes()[r.at:])
		r.at += n
		return n, nil
	}
	if r.through {
		return r.Conn.Read(b)
	}
	if r.seen.Len() >= maxHello {
		return 0, io.ErrShortBuffer
	}
	n, err := r.Conn.Read(b[:min(len(b), maxHello-r.seen.Len())])
	r.seen.Write(b[:n])
	r.at += n
	return n, err
}

func (r *replay) Write(b []byte) (int, error) {
	if r.through {
		return r.Conn.Write(b)
	}
	return len(b), nil
}

func (r *replay) Close() error {
	if r.through {
		return r.Conn.Close()
	}
	return nil
}
