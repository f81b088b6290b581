package e2b

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"aether/internal/host/storedir"
)

const (
	keyFile  = "e2b.key"
	keyBytes = 32
)

// OpenKey reads the key of a state directory, or makes one. Errors: Denied for one that
// others could have read.
func OpenKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	key, err := storedir.ReadPrivate(path, keyBytes)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, keyBytes)
	_, _ = rand.Read(key) // which never fails
	if err := writeKey(path, key); err != nil {
		return nil, err
	}
	return storedir.ReadPrivate(path, keyBytes) // another daemon may have been faster
}

// writeKey makes the file whole or not at all, unless there is one.
func writeKey(path string, key []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".key-*") // which nobody else may read
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.Write(key)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Link(file.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// tokens derives what proves that somebody may use a sandbox.
type tokens []byte

func (t tokens) derive(what, id string) string {
	sum := hmac.New(sha256.New, t)
	sum.Write([]byte(what + " " + id))
	return hex.EncodeToString(sum.Sum(nil))
}

// access is the token for the guest service, and traffic that for ports.
func (t tokens) access(id string) string  { return t.derive("access", id) }
func (t tokens) traffic(id string) string { return t.derive("traffic", id) }

// upload is the token for sending the files of a step of a build.
func (t tokens) upload(tenant, hash string) string { return t.derive("upload "+tenant, hash) }

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
