package network

import (
	"bytes"
	"context"
	"crypto/rand"
	"slices"

	"aether/sandbox"
)

// TrustFile is where a sandbox has the certificates that its programs believe in, where
// rules are about its requests: those of its image, and that of its gateway.
const TrustFile = "/tmp/.aether/ca.pem"

// trustVariables name that file to programs.
var trustVariables = []string{
	"SSL_CERT_FILE",       // OpenSSL and what is made with it, Go, Rust
	"CURL_CA_BUNDLE",      // curl
	"REQUESTS_CA_BUNDLE",  // Python's requests, pip
	"GIT_SSL_CAINFO",      // git
	"NODE_EXTRA_CA_CERTS", // Node
	"PIP_CERT",            // pip and npm where settings of the image name another file
	"npm_config_cafile",
}

// TrustEnv are the variables of a sandbox's commands that have its programs believe its
// gateway, or nil where nothing has to be believed: where no rule is about its requests, also
// none that a list brings with a credential. Errors: those of Compile.
func (s *Service) TrustEnv(ctx context.Context, n sandbox.Network) (map[string]string, error) {
	if n.Mode != sandbox.EgressNetwork {
		return nil, nil
	}
	ruled := len(n.HTTP) > 0
	if !ruled && slices.ContainsFunc(n.Allow, namesList) {
		p, err := s.Compile(ctx, n)
		if err != nil {
			return nil, err
		}
		ruled = len(p.HTTP) > 0
	}
	if !ruled {
		return nil, nil
	}
	env := map[string]string{}
	for _, name := range trustVariables {
		env[name] = TrustFile
	}
	return env, nil
}

func namesList(entry string) bool {
	r, err := sandbox.ParseReach(entry)
	return err == nil && r.List != "" && r.List != sandbox.PublicList
}

// MaxTrust bounds what is read of an image's own certificates.
const MaxTrust = 2 * maxRoots

// TrustBundle is the contents of TrustFile: what read finds of the image's own, and the
// gateway's certificate.
func TrustBundle(certificate []byte, read func(path string) ([]byte, error)) []byte {
	var own []byte
	for _, path := range bundles {
		if text, err := read(path); err == nil {
			if own = certificates(text, maxRoots); len(own) > 0 {
				break
			}
		}
	}
	return slices.Concat(own, certificate)
}

// AuthorityKey is what the authority of a sandbox's gateway is made of. A sandbox that goes
// on from the memory of another has the other's, so that programs which have read a
// certificate believe their gateway still.
type AuthorityKey []byte

func (k AuthorityKey) orNew() AuthorityKey {
	if len(k) > 0 {
		return k
	}
	k = make(AuthorityKey, 32)
	_, _ = rand.Read(k) // which never fails
	return k
}

// AuthorityKey is that of the sandbox, or nil if it is on no network.
func (a *Attached) AuthorityKey() AuthorityKey {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.key
}

// OnTrust has someone be told, in a goroutine of its own, whenever the sandbox has to trust
// another certificate, as after the gateways' program had to be started again.
func (a *Attached) OnTrust(trusting func(certificate []byte)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trusting = trusting
}

// Authority is the certificate, in PEM, that the sandbox has to trust, or nil if none.
func (a *Attached) Authority() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.authority
}

// trust notes the gateway's certificate, if there is one.
func (a *Attached) trust(certificate []byte) {
	a.mu.Lock()
	changed := len(certificate) > 0 && !bytes.Equal(certificate, a.authority)
	if changed {
		a.authority = certificate
	}
	tell := a.trusting
	a.mu.Unlock()
	if changed && tell != nil {
		go tell(certificate) // it writes into the sandbox, and the caller holds locks
	}
}
