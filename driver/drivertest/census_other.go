//go:build !linux

package drivertest

import (
	"io/fs"
	"path/filepath"
	"testing"

	"aether/sandbox"
)

// census is what can be counted where there is no /proc: files, and what the
// driver's own system says.
type census struct{ files, left []string }

func (c Config) census(t testing.TB, dir string) census {
	t.Helper()
	now := census{left: c.held(t)}
	now.forgetFiles(dir)
	return now
}

func (now census) grown(before census) (list []string) {
	if len(now.files) > len(before.files) {
		list = append(list, now.files...)
	}
	if len(now.left) > len(before.left) {
		list = append(list, now.left...)
	}
	return list
}

func (now *census) forgetFiles(dir string) {
	now.files = nil
	_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err == nil {
			now.files = append(now.files, name)
		}
		return nil
	})
}

func (c Config) killed(t *testing.T) { t.Skip("killed programs are followed by /proc") }

func churn(driver sandbox.Driver) error { return nil }

func markSelf(*testing.T) {}
