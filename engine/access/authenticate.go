package access

import (
	"context"
	"crypto/subtle"
	"strings"

	"aether/sandbox"
)

// KeyID is by what a key is known where the key itself must not be seen, as in the
// audit trail. It is empty for what cannot be a key.
func KeyID(secret string) string {
	if !isKey(secret) {
		return ""
	}
	id, _ := digest(secret)
	return id
}

func isKey(secret string) bool {
	digits, ok := strings.CutPrefix(secret, keyPrefix)
	if !ok || len(digits) != keyDigits {
		return false
	}
	return strings.Trim(digits, "0123456789abcdef") == ""
}

// Authenticate finds on whose behalf the holder of a key calls. It reads the key's
// record each time, so that a revocation by another program counts at once. Every
// refusal is Denied, and does not tell a key that never was from one that was.
func (k *Keys) Authenticate(_ context.Context, secret string) (Caller, error) {
	if !isKey(secret) {
		return Caller{}, refused()
	}
	id, hash := digest(secret)
	record, err := k.view.Load(id)
	if err != nil {
		if sandbox.ClassOf(err) != sandbox.NotFound {
			k.log.Error("access: the record of a key cannot be read", "id", id, "err", err)
		}
		return Caller{}, refused()
	}
	if subtle.ConstantTimeCompare([]byte(record.Hash), []byte(hash)) != 1 || !k.isGood(record.Key) {
		return Caller{}, refused()
	}
	return Caller{Tenant: record.Tenant, Operator: record.Operator, Name: id}, nil
}

func (k *Keys) isGood(key Key) bool {
	expired := !key.Expires.IsZero() && !k.now().Before(key.Expires)
	return key.Revoked.IsZero() && !expired
}

func refused() error {
	return &sandbox.Error{Class: sandbox.Denied, Op: "access", Reason: "the key is unknown, expired or revoked", Remedy: "ask an operator for another (aether key create)"}
}
