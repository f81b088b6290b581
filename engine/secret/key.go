package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"aether/engine/state"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

const (
	keyFile  = "secret.key"
	keyBytes = 32
)

// key encrypts values. It is read from its file for each use, so that the file is checked
// each time and nothing of it stays.
type key struct {
	aead cipher.AEAD
	id   string
}

// errNoKey: there is no key file.
var errNoKey = &sandbox.Error{Class: sandbox.Unavailable, Op: "secret", Reason: "the key file " + keyFile + " of the state directory is gone",
	Remedy: "put it back, or set the value again"}

// readKey reads the key of a state directory. Errors: errNoKey; Unavailable for a file that
// others could have read or written, or that is no key.
func readKey(dir *state.Dir) (*key, error) {
	secret, err := storedir.ReadPrivate(dir.File(keyFile), keyBytes)
	defer clear(secret)
	var open *sandbox.Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoKey
	case errors.As(err, &open):
		return nil, &sandbox.Error{Class: sandbox.Unavailable, Op: "secret", Reason: "the key file " + keyFile + " of the state directory cannot be used: " + open.Reason, Remedy: open.Remedy}
	case err != nil:
		return nil, fmt.Errorf("secret: %w", err)
	}
	return newKey(secret)
}

// makeKey makes the key file of a state directory that has none.
func makeKey(dir *state.Dir) (*key, error) {
	secret := make([]byte, keyBytes)
	defer clear(secret)
	_, _ = rand.Read(secret) // which never fails
	if err := dir.Keep(keyFile, secret); err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	return readKey(dir)
}

func newKey(secret []byte) (*key, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("secret: %w", err)
	}
	return &key{aead, keyID(secret)}, nil
}

// keyID tells keys apart without telling anything of them.
func keyID(secret []byte) string {
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte("aether secret: which key"))
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
