package networktest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"aether/internal/host/netdev/netdevtest"
)

// Host serves a name over TLS until the test ends. It gives the certificate, in PEM, that
// the name is believed by, and the proxy that reaches it under every name.
func Host(t testing.TB, name string, handler http.HandlerFunc) (roots []byte, proxy string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
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
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), relay(t, l.Addr().String())
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
