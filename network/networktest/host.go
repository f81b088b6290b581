package networktest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"aether/internal/host/netdev/netdevtest"
)

// authority is who signs for all hosts of a test program: services read whom they believe
// once. Its key is never written.
var authority = sync.OnceValues(func() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tests"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
})

// roots is its certificate in PEM.
func roots() ([]byte, error) {
	a, err := authority()
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.Leaf.Raw}), nil
}

// Host serves a name, and those below it, over TLS until the test ends. It gives the
// certificate, in PEM, that they are believed by, as Service does, and the proxy that
// reaches it under every name.
func Host(t testing.TB, name string, handler http.HandlerFunc) (believed []byte, proxy string) {
	t.Helper()
	by, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name, "*." + name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.Leaf, &key.PublicKey, by.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close() })
	if believed, err = roots(); err != nil {
		t.Fatal(err)
	}
	return believed, relay(t, l.Addr().String())
}

// relay is a proxy that takes every name for one address.
func relay(t testing.TB, to string) string {
	t.Helper()
	return "http://" + netdevtest.Serve(t, "127.0.0.1:0", func(conn net.Conn) { pass(conn, to) }).String()
}

func pass(conn net.Conn, to string) {
	r := bufio.NewReader(conn)
	if _, err := http.ReadRequest(r); err != nil {
		return
	}
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { _, _ = io.Copy(out, r); out.Close() }()
	_, _ = io.Copy(conn, out)
}
