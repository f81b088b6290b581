package secret

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"aether/sandbox"
)

const (
	// format counts up with every change that older programs could not read. It is
	// authenticated with each value.
	format = 1
	// overhead is what encryption adds to a value: a nonce and a tag.
	overhead  = 12 + 16
	maxTenant = 64
)

// Secret is what is told of a secret: all but its value.
type Secret struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant"`
	// Hosts are those that its value may be sent to; none is no restriction.
	Hosts []string `json:"hosts,omitempty"`
	// Metadata is its owner's, and means nothing here.
	Metadata map[string]string `json:"metadata,omitempty"`

	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// record is a secret on disk.
type record struct {
	Secret
	KeyID  string `json:"key"`    // of the key that sealed it
	Sealed []byte `json:"sealed"` // nonce, ciphertext and tag
}

// UnmarshalJSON takes nothing that this package would not have written.
func (r *record) UnmarshalJSON(text []byte) error {
	type plain record
	if err := json.Unmarshal(text, (*plain)(r)); err != nil {
		return err
	}
	hosts, err := CheckHosts(r.Hosts)
	if err = errors.Join(err, CheckMetadata(r.Metadata)); err != nil {
		return err
	}
	switch {
	case !IsName(r.Name) || !sandbox.IsName(r.Tenant, maxTenant):
		return errors.New("it is of nobody's secret")
	case !slices.Equal(hosts, r.Hosts):
		return errors.New("its hosts are not as they were kept")
	case len(r.Sealed) <= overhead || len(r.Sealed) > MaxValue+overhead:
		return errors.New("its value is too short or too long")
	}
	return nil
}

// id names the record of a secret: names have letters that ids cannot have.
func (id ID) record() string {
	sum := sha256.Sum256([]byte(id.Tenant + "/" + id.Name))
	return hex.EncodeToString(sum[:20])
}

// bound is what is authenticated with a value. No part of it holds a zero byte.
func bound(id ID, hosts []string) []byte {
	return []byte(strings.Join(append([]string{"aether secret", strconv.Itoa(format), id.Tenant, id.Name}, hosts...), "\x00"))
}

// seal encrypts a value for the record of a secret.
func (k *key) seal(s Secret, value Value) record {
	return record{Secret: s, KeyID: k.id, Sealed: k.aead.Seal(nil, nil, value.Reveal(), bound(s.id(), s.Hosts))}
}

// open decrypts the value of a record that was found under an id. Errors: Unavailable for
// another key, and for a record that was changed or belongs elsewhere.
func (k *key) open(id ID, r record) (Value, error) {
	if r.KeyID != k.id {
		return Value{}, &sandbox.Error{Class: sandbox.Unavailable, Op: "secret", Reason: "the value was encrypted with another key than " + keyFile + " of the state directory has now",
			Remedy: "put that key back, or set the value again"}
	}
	text, err := k.aead.Open(nil, nil, r.Sealed, bound(id, r.Hosts))
	defer clear(text)
	if err != nil {
		return Value{}, &sandbox.Error{Class: sandbox.Unavailable, Op: "secret", Reason: "the value does not decrypt: its file was changed, or is another secret's", Remedy: "set the value again"}
	}
	return NewValue(text)
}
