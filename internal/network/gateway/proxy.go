package gateway

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"aether/network/policy"
	"aether/sandbox"

	"golang.org/x/net/proxy"
)

// maxProxyHead bounds what a proxy answers.
const maxProxyHead = 16 << 10

// dialThrough connects to a target by the policy's proxy, which is told its name: what that
// resolves to is the proxy's business. Errors: refusal.
func (w *Way) dialThrough(ctx context.Context, p policy.Policy, t target) (net.Conn, policy.Verdict, error) {
	verdict := p.Name(t.name, t.port, t.udp)
	if t.name == "" {
		verdict = p.Address(t.address, t.port, t.udp, policy.Verdict{})
	}
	switch {
	case !verdict.Allowed:
		return nil, verdict, &refusal{verdict: verdict, reason: "no rule allows it"}
	case t.udp:
		return nil, verdict, &refusal{verdict: verdict, reason: "nothing but TCP goes through a proxy"}
	}
	conn, err := w.dialProxy(ctx, p.Proxy)
	if err != nil {
		return nil, verdict, fmt.Errorf("the proxy: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		err = conn.SetDeadline(deadline)
	}
	if err == nil {
		err = greet(ctx, conn, p, net.JoinHostPort(t.host(), strconv.Itoa(int(t.port))))
	}
	if err = errors.Join(err, conn.SetDeadline(time.Time{})); err != nil {
		return nil, verdict, errors.Join(fmt.Errorf("the proxy: %w", err), conn.Close())
	}
	return conn, verdict, nil
}

// dialProxy connects to the proxy itself. One that is named has a public address; what has
// none is given by its address.
func (w *Way) dialProxy(ctx context.Context, p sandbox.Proxy) (net.Conn, error) {
	list := []netip.Addr{p.Address}
	if p.Name != "" {
		var err error
		if list, err = w.resolve(ctx, p.Name); err != nil {
			return nil, err
		}
	}
	errs := []error{errNoHost}
	for _, addr := range list {
		addr = addr.Unmap().WithZone("")
		if p.Name != "" && (!sandbox.IsPublic(addr) || w.own.has(addr)) {
			errs = append(errs, fmt.Errorf("%s is not a public address: a proxy there is named by its address", addr))
			continue
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", netip.AddrPortFrom(addr, p.Port).String())
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// greet has a proxy connect to an address. Nothing that the host says is read.
func greet(ctx context.Context, conn net.Conn, p policy.Policy, address string) error {
	user, password, _ := strings.Cut(p.Secrets[p.Proxy.Secret].Reveal(), ":")
	if p.Proxy.Scheme == "http" {
		return connectHTTP(conn, address, user, password, p.Proxy.Secret != "")
	}
	var auth *proxy.Auth
	if p.Proxy.Secret != "" {
		auth = &proxy.Auth{User: user, Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", p.Proxy.Host(), auth, made{conn})
	if err != nil {
		return err
	}
	through, ok := dialer.(proxy.ContextDialer)
	if !ok {
		return errors.ErrUnsupported
	}
	_, err = through.DialContext(ctx, "tcp", address)
	return err
}

// made is a dialer of a connection that exists.
type made struct{ net.Conn }

// Dial implements proxy.Dialer.
func (m made) Dial(string, string) (net.Conn, error) { return m.Conn, nil }

// DialContext implements proxy.ContextDialer.
func (m made) DialContext(context.Context, string, string) (net.Conn, error) { return m.Conn, nil }

func connectHTTP(conn net.Conn, address, user, password string, authorize bool) error {
	head := "CONNECT " + address + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if authorize {
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return err
	}
	var answer bytes.Buffer
	var one [1]byte
	for !bytes.HasSuffix(answer.Bytes(), []byte("\r\n\r\n")) {
		if answer.Len() >= maxProxyHead {
			return errors.New("it answers too much")
		}
		if _, err := io.ReadFull(conn, one[:]); err != nil {
			return err
		}
		answer.WriteByte(one[0])
	}
	res, err := http.ReadResponse(bufio.NewReader(&answer), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return errors.New("its answer is not of HTTP")
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("it answers with the status %d", res.StatusCode)
	}
	return nil
}
