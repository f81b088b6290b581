package guest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	tokenHeader = "X-Access-Token"
	opRead      = "read"
	opWrite     = "write"
)

func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Sign makes the signature that lets a URL of one file be used without the
// access token. The expiry is a Unix time, or zero for none.
func Sign(path, operation, user, token string, expiry int64) string {
	parts := []string{path, operation, user, token}
	if expiry != 0 {
		parts = append(parts, strconv.FormatInt(expiry, 10))
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ":")))
	return "v1_" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// authorizeFile checks the header, or the signature in the URL.
func authorizeFile(r *http.Request, operation, token string) error {
	if token == "" {
		return nil
	}
	if shown := r.Header.Get(tokenHeader); shown != "" {
		if !sameText(shown, token) {
			return unauthenticated(tokenHeader, "the access token is wrong")
		}
		return nil
	}
	return checkSignature(r.URL.Query(), operation, token)
}

func checkSignature(query url.Values, operation, token string) error {
	if !query.Has("signature") {
		return unauthenticated("signature", "neither an access token nor a signature is given")
	}
	var expiry int64
	if text := query.Get("signature_expiration"); text != "" {
		var err error
		if expiry, err = strconv.ParseInt(text, 10, 64); err != nil || expiry == 0 {
			return unauthenticated("signature_expiration", "it is not a time")
		}
	}
	want := Sign(query.Get("path"), operation, query.Get("username"), token, expiry)
	if !sameText(query.Get("signature"), want) {
		return unauthenticated("signature", "it is wrong")
	}
	if expiry != 0 && expiry < time.Now().Unix() {
		return unauthenticated("signature", "it has expired")
	}
	return nil
}
