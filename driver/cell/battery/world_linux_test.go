package battery_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Hosts of the world.
const (
	resolver = "93.184.0.53"
	okay     = "93.184.0.1" // of ok.example and of shared.example
	evil     = "93.184.0.2" // of evil.example and all names below it
	metadata = "169.254.169.254"
	ours     = "93.184.200.1" // of the host that the cells are on
)

// Ports at which every host of the world listens, beside 53, 80, 443 and 853.
const (
	echoPort    = 7
	endlessPort = 19
	proxyPort   = 1080 // of SOCKS
	relayPort   = 9090 // a second one of HTTP
)

// world is the Internet of a test.
type world struct {
	testing.TB
	names     *nameServer
	authority []byte // in PEM
	tls       *tls.Config
	hidden    []byte // the keys by which names of hellos are hidden
	proxied   *seenNames
	// sites are hosts that serve more than their names.
	sites map[string]http.Handler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{TB: t, names: newNameServer(), proxied: &seenNames{}, sites: sites(t)}
	w.certify()
	w.hide()
	for _, at := range []string{resolver, evil} {
		w.serveNames(at)
		w.listen(net.JoinHostPort(at, "53"), w.names.serveStream)
	}
	w.listen(":853", func(c net.Conn) { w.names.serveStream(tls.Server(c, w.tls)) })
	w.listen(fmt.Sprint(":", echoPort), func(c net.Conn) { _, _ = io.Copy(c, c) })
	w.listen(fmt.Sprint(":", endlessPort), func(c net.Conn) { _, _ = io.Copy(c, endless{}) })
	w.listen(fmt.Sprint(":", proxyPort), w.serveSOCKS)
	for _, at := range []string{okay + ":443", evil + ":443", okay + ":7", evil + ":7", okay + ":9"} {
		w.echoDatagrams(at)
	}
	for _, port := range []int{80, relayPort} {
		w.serveWeb(w.bind(fmt.Sprint(":", port)))
	}
	w.serveWeb(tls.NewListener(w.bind(":443"), w.tls))
	return w
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func (w *world) bind(address string) net.Listener {
	w.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { l.Close() })
	return l
}

// listen has somebody speak with whoever connects.
func (w *world) listen(address string, serve func(net.Conn)) {
	w.Helper()
	l := w.bind(address)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); serve(conn) }()
		}
	}()
}

func (w *world) echoDatagrams(address string) {
	w.Helper()
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 64<<10); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buf[:n], from)
		}
	}()
}

// serveWeb serves every name at every address, says who was reached by which name, relays
// connections, passes requests on for other hosts, and knows names over HTTPS.
func (w *world) serveWeb(l net.Listener) {
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			w.relay(out, r.Host)
		case r.URL.Path == "/dns-query":
			question, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("dns"))
			if err != nil {
				http.Error(out, err.Error(), http.StatusBadRequest)
				return
			}
			_, _ = out.Write(w.names.answer(question))
		case w.sites[r.Host] != nil && r.URL.Path != "/":
			w.sites[r.Host].ServeHTTP(out, r)
		default:
			local, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
			fmt.Fprintf(out, "this is %s at %s\n", r.Host, local)
		}
	})}
	go func() { _ = s.Serve(l) }()
	w.Cleanup(func() { s.Close() })
}

// relay is what a proxy does, whatever it is asked to.
func (w *world) relay(out http.ResponseWriter, address string) {
	host, port, err := net.SplitHostPort(address)
	list := w.names.addresses(host)
	if err != nil || len(list) == 0 {
		http.Error(out, "no such host", http.StatusBadGateway)
		return
	}
	to, err := net.Dial("tcp", net.JoinHostPort(list[0].String(), port))
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadGateway)
		return
	}
	defer to.Close()
	conn, buffered, err := out.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 relayed\r\n\r\n")
	go func() { _, _ = io.Copy(to, buffered) }()
	_, _ = io.Copy(conn, to)
}

// serveSOCKS is a proxy that resolves names itself, and notes them.
func (w *world) serveSOCKS(c net.Conn) {
	in := bufio.NewReader(c)
	head := make([]byte, 2)
	if _, err := io.ReadFull(in, head); err != nil {
		return
	}
	if _, err := in.Discard(int(head[1])); err != nil {
		return
	}
	_, _ = c.Write([]byte{5, 0})
	request := make([]byte, 5)
	if _, err := io.ReadFull(in, request); err != nil || request[3] != 3 {
		return
	}
	name := make([]byte, int(request[4])+2)
	if _, err := io.ReadFull(in, name); err != nil {
		return
	}
	host := string(name[:len(name)-2])
	w.proxied.note(host)
	list := w.names.addresses(host)
	if len(list) == 0 {
		_, _ = c.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0})
		return
	}
	to, err := net.Dial("tcp", net.JoinHostPort(list[0].String(), fmt.Sprint(int(name[len(name)-2])<<8|int(name[len(name)-1]))))
	if err != nil {
		return
	}
	defer to.Close()
	_, _ = c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	go func() { _, _ = io.Copy(to, in) }()
	_, _ = io.Copy(c, to)
}

// certify makes an authority, and a certificate for all names.
func (w *world) certify() {
	w.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the world's authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: append(slices.Sorted(maps.Keys(records)), "*.evil.example"), NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	ca, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err != nil {
		w.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, key)
	if err != nil {
		w.Fatal(err)
	}
	w.authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca})
	w.tls = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, NextProtos: []string{"h2", "http/1.1"}}
}
