package network

import (
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// bundles are where systems have the certificates of the authorities that they believe, in
// one file: the first that is there counts.
var bundles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Alpine, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/ssl/cert.pem",
}

const (
	rootsVariable = "SSL_CERT_FILE"
	rootsDir      = "/etc/ssl/certs"
	maxRoots      = 2 << 20
)

// hostRoots are the certificates that programs of this host believe in. They are read anew
// for each process.
func hostRoots(log *slog.Logger) []byte {
	files := bundles
	if named := os.Getenv(rootsVariable); named != "" {
		files = []string{named}
	}
	for _, path := range files {
		if roots := readRoots(path, maxRoots, log); len(roots) > 0 {
			return roots
		}
	}
	return rootsIn(rootsDir, log)
}

// rootsIn are those of a directory with a file for each.
func rootsIn(dir string, log *slog.Logger) (all []byte) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		log.Debug("network: roots", "err", err)
	}
	for _, e := range entries {
		all = append(all, readRoots(filepath.Join(dir, e.Name()), maxRoots-len(all), log)...)
	}
	return all
}

// readRoots are the certificates of a file, without what is around them.
func readRoots(path string, most int, log *slog.Logger) []byte {
	file, err := os.Open(path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Debug("network: roots", "err", err)
		}
		return nil
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, 2*maxRoots))
	if err != nil {
		log.Debug("network: roots", "path", path, "err", err)
		return nil
	}
	return certificates(text, most)
}

// certificates are those of a text, as many as fit.
func certificates(text []byte, most int) []byte {
	var out bytes.Buffer
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		one := pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
		if block.Type == "CERTIFICATE" && out.Len()+len(one) <= most {
			out.Write(one)
		}
	}
	return out.Bytes()
}
