package gateway

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"io"
)

// ca is an authority of the Internet.
type ca struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newCA(t testing.TB) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &ca{cert, key}
}

func (c *ca) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.cert)
	return pool
}

func (c *ca) leaf(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, c.cert, &c.key.PublicKey, c.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.key}
}

// site is a host of the Internet that serves names over TLS at every address.
func site(t testing.TB, c *ca, h http.Handler, protocols []string, names ...string) (port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{c.leaf(t, names...)}, NextProtos: protocols},
		ErrorLog: log.New(io.Discard, "", 0)}
	s.Protocols = new(http.Protocols)
	for _, p := range protocols {
		s.Protocols.SetHTTP1(s.Protocols.HTTP1() || p == "http/1.1")
		s.Protocols.SetHTTP2(s.Protocols.HTTP2() || p == "h2")
	}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { s.Close() })
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// trusting are the sandbox's roots: its gateway's certificate and no other.
func (b *box) trusting() *x509.CertPool {
	b.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b.gateway.Authority()) {
		b.Fatal("the gateway has no authority")
	}
	return pool
}

// client is a program of the sandbox's.
func (b *box) client(roots *x509.CertPool, second bool) *http.Client {
	t := &http.Transport{
		DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			number, err := net.LookupPort("tcp", port)
			if err != nil {
				return nil, err
			}
			return b.reach(host, uint16(number))
		},
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: second,
	}
	b.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
