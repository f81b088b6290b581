package rest

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLSFiles gives TLS by the files of a certificate and its key, which are read again when
// they have changed. The old ones go on serving where the new ones cannot be read, which
// is logged.
func TLSFiles(certificate, key string, log *slog.Logger) (*tls.Config, error) {
	p := &pair{certificate: certificate, key: key, log: log}
	changed, err := p.changed()
	if err != nil {
		return nil, fmt.Errorf("rest: certificate: %w", err)
	}
	if err := p.load(changed); err != nil {
		return nil, fmt.Errorf("rest: certificate: %w", err)
	}
	return newTLS(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current(), nil }), nil
}

// pair is a certificate and its key, of files that somebody renews.
type pair struct {
	certificate, key string
	log              *slog.Logger

	mu     sync.Mutex
	loaded *tls.Certificate
	of     time.Time // the newer of the files, when they were last read
}

func (p *pair) current() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, err := p.changed()
	if changed.Equal(p.of) {
		return p.loaded
	}
	if err == nil {
		err = p.load(changed)
	}
	if err != nil {
		p.log.Error("rest: certificate not renewed", "error", err)
	}
	p.of = changed // whether it could be read or not: once is enough
	return p.loaded
}

func (p *pair) load(changed time.Time) error {
	loaded, err := tls.LoadX509KeyPair(p.certificate, p.key)
	if err != nil {
		return err
	}
	p.loaded, p.of = &loaded, changed
	return nil
}

// changed is when the newer file was, zero if one is missing.
func (p *pair) changed() (time.Time, error) {
	var newest time.Time
	for _, name := range []string{p.certificate, p.key} {
		info, err := os.Stat(name)
		if err != nil {
			return time.Time{}, err
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	return newest, nil
}
