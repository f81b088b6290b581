package rest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"aether/internal/bounded"
	"aether/sandbox"
)

const (
	authorityFile   = "authority.pem" // certificate and key
	authorityPublic = "authority.crt" // what clients trust
	authorityYears  = 10
	leafDays        = 60
	renewDays       = 20
	maxAuthority    = 64 << 10
)

// authority signs this daemon's certificate for clients that are given its own.
type authority struct {
	cert  *x509.Certificate
	key   crypto.Signer
	hosts []string

	mu   sync.Mutex
	leaf *tls.Certificate
}

// LocalAuthority gives TLS for these names and addresses by an authority that is kept in
// dir, and made there if there is none. Clients trust the file at public. The daemon's own
// certificate is renewed while it runs.
func LocalAuthority(dir string, hosts []string) (config *tls.Config, public string, err error) {
	if len(hosts) == 0 {
		return nil, "", sandbox.Invalidf("hosts", "a certificate needs a name or an address")
	}
	a, err := openAuthority(dir)
	if err != nil {
		return nil, "", fmt.Errorf("rest: local authority: %w", err)
	}
	a.hosts = hosts
	if _, err := a.certificate(time.Now()); err != nil {
		return nil, "", fmt.Errorf("rest: local authority: %w", err)
	}
	return newTLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return a.certificate(time.Now()) }), filepath.Join(dir, authorityPublic), nil
}

func newTLS(get func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{GetCertificate: get, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
}

func openAuthority(dir string) (*authority, error) {
	text, err := bounded.ReadFile(filepath.Join(dir, authorityFile), maxAuthority)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = makeAuthority(dir)
	}
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", authorityFile, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s: it is no authority's", authorityFile)
	}
	return &authority{cert: pair.Leaf, key: key}, nil
}

// makeAuthority writes the public part first: whoever finds the other finds it too.
func makeAuthority(dir string) ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate("Aether local authority", authorityYears*365)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	whole := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), public...)
	if err := replaceFile(filepath.Join(dir, authorityPublic), public, 0o644); err != nil {
		return nil, err
	}
	return whole, replaceFile(filepath.Join(dir, authorityFile), whole, 0o600)
}

func newTemplate(name string, days int) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(0, 0, days)}, nil
}

// certificate gives the daemon's, or a new one when that has not long to go.
func (a *authority) certificate(now time.Time) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leaf != nil && now.AddDate(0, 0, renewDays).Before(a.leaf.Leaf.NotAfter) {
		return a.leaf, nil
	}
	leaf, err := a.sign()
	if err == nil {
		a.leaf = leaf
	}
	return leaf, err
}

func (a *authority) sign() (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(a.hosts[0], leafDays)
	if err != nil {
		return nil, err
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range a.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// replaceFile writes a whole file or none of it.
func replaceFile(path string, contents []byte, mode fs.FileMode) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(contents)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
