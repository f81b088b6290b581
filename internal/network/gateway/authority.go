package gateway

import (
	"container/list"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"
	"time"

	"aether/network/policy"
)

const (
	// authorityLife is how long the certificate of an authority is good. It is made again,
	// of the same key, when a third of that is left: programs that have the one before
	// believe in it until it ends.
	authorityLife = 9 * 24 * time.Hour
	clockSlack    = 24 * time.Hour // of sandboxes whose clock is behind
	maxLeaves     = 256
	maxCommonName = 64
)

// authority makes the certificates by which a sandbox believes its gateway: for the hosts
// that rules are about, and for no other. Its key is of those that made the gateway, and nobody's inside.
type authority struct {
	key     *ecdsa.PrivateKey // of the authority
	leafKey *ecdsa.PrivateKey // of all hosts
	renewed func(certificate []byte)

	mu     sync.Mutex
	hosts  []string // that it may be for, with all below each
	cert   *x509.Certificate
	leaves map[string]*list.Element
	recent *list.List // of *leaf; the last is the oldest
}

type leaf struct {
	name string
	cert *tls.Certificate
}

// newAuthority makes one of a key, the same of the same: programs that have read the
// certificate of the one before believe this one too. It has no certificate before
// forRules.
func newAuthority(of []byte, renewed func([]byte)) (*authority, error) {
	key, err := signingKey(of)
	if err != nil {
		return nil, err
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return &authority{key: key, leafKey: leafKey, renewed: renewed, leaves: map[string]*list.Element{}, recent: list.New()}, nil
}

// signingKey is made of 32 random bytes or more.
func signingKey(of []byte) (*ecdsa.PrivateKey, error) {
	const least = 32
	if len(of) < least {
		return nil, fmt.Errorf("authority: a key of %d bytes", len(of))
	}
	for n := byte(0); ; n++ {
		number := sha256.Sum256(append(slices.Clone(of), n))
		key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), number[:])
		if err == nil || n == math.MaxUint8 { // one in four billion is no number of the curve
			return key, err
		}
	}
}

// forRules makes the certificate for the hosts of a policy's rules, unless it is for them.
func (a *authority) forRules(rules []policy.HTTPRule) error {
	var hosts []string
	for _, r := range rules {
		hosts = append(hosts, r.Host.Name)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cert != nil && slices.Equal(hosts, a.hosts) {
		return nil
	}
	a.hosts = hosts
	return a.certify()
}

// certify makes the authority's certificate. The caller holds the lock.
func (a *authority) certify() error {
	now := time.Now()
	name := pkix.Name{CommonName: "Network of this sandbox", Organization: []string{"Aether"}}
	template := &x509.Certificate{
		SerialNumber: serial(), Subject: name, NotBefore: now.Add(-clockSlack), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: a.hosts,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	clear(a.leaves)
	a.recent.Init()
	return nil
}

// certificate is the authority's, in PEM.
func (a *authority) certificate() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pem()
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// leaf is the certificate of a host.
func (a *authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Until(a.cert.NotAfter) < authorityLife/3 {
		if err := a.certify(); err != nil {
			return nil, err
		}
		if a.renewed != nil {
			a.renewed(a.pem())
		}
	}
	if e := a.leaves[name]; e != nil {
		a.recent.MoveToFront(e)
		return e.Value.(*leaf).cert, nil
	}
	cert, err := a.sign(name)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	if a.recent.Len() >= maxLeaves {
		delete(a.leaves, a.recent.Remove(a.recent.Back()).(*leaf).name)
	}
	a.leaves[name] = a.recent.PushFront(&leaf{name, cert})
	return cert, nil
}

func (a *authority) sign(name string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: serial(), NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	if len(name) <= maxCommonName {
		template.Subject.CommonName = name
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &a.leafKey.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leafKey}, nil
}

func serial() *big.Int {
	n := make([]byte, 16)
	_, _ = rand.Read(n) // which never fails
	n[0] &= 0x7f
	return new(big.Int).SetBytes(n)
}
