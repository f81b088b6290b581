package rest

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aether/sandbox"
)

// TestLocalAuthority: it is made once, keeps its key for itself, signs for the names that
// are asked for and nothing else, and renews what it signed in time.
func TestLocalAuthority(t *testing.T) {
	dir := t.TempDir()
	config, public, err := LocalAuthority(dir, []string{"sandboxes.example", "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(public)
	if err != nil || strings.Contains(string(text), "PRIVATE") {
		t.Fatalf("%s, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, authorityFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(text)
	leaf, err := config.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"sandboxes.example": true, "192.0.2.1": true, "other.example": false} {
		if _, err := leaf.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, err := openAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		t.Errorf("it is another one after a restart: %v", err)
	}
	_, _, err = LocalAuthority(dir, nil)
	if sandbox.ClassOf(err) != sandbox.Invalid {
		t.Error(err)
	}
}

func TestLeafIsRenewed(t *testing.T) {
	a, err := openAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a.hosts = []string{"localhost"}
	now := time.Now()
	first, err := a.certificate(now)
	if err != nil {
		t.Fatal(err)
	}
	if same, err := a.certificate(now.AddDate(0, 0, leafDays-renewDays-1)); err != nil || same != first {
		t.Errorf("it is renewed early, %v", err)
	}
	if other, err := a.certificate(now.AddDate(0, 0, leafDays-renewDays+1)); err != nil || other == first {
		t.Errorf("it is not renewed, %v", err)
	}
}

// TestDamagedAuthority is refused, not replaced: clients trust the old one.
func TestDamagedAuthority(t *testing.T) {
	dir := t.TempDir()
	if _, err := openAuthority(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, authorityFile), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openAuthority(dir); err == nil || !strings.Contains(err.Error(), authorityFile) {
		t.Error(err)
	}
}

// TestTLSFilesAreReadAgain: a certificate that was renewed on disk is used, and one that
// cannot be read is not.
func TestTLSFilesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, authorityFile)
	renew := func(at time.Time) {
		if _, err := makeAuthority(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now()
	renew(now)
	var log strings.Builder
	config, err := TLSFiles(name, name, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	current := func() *x509.Certificate {
		c, err := config.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Leaf
	}
	first := current()
	renew(now.Add(time.Minute))
	second := current()
	if second.Equal(first) {
		t.Error("the old one is used")
	}
	if err := os.WriteFile(name, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if !current().Equal(second) {
			t.Error("another one is used")
		}
	}
	if n := strings.Count(log.String(), "certificate not renewed"); n != 1 {
		t.Errorf("it is told %d times: %s", n, log.String())
	}
	if _, err := TLSFiles(filepath.Join(dir, "none"), name, slog.Default()); err == nil {
		t.Error("a missing file is no error")
	}
}
