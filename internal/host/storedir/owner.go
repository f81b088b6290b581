//go:build unix

package storedir

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"aether/sandbox"
)

// Prepare makes the directory if it is missing and refuses one that anybody but
// the caller could change, or lead elsewhere by one of the directories above: its
// contents become the root of sandboxes. Others may pass through it but not list it.
// The same goes for parts, directories in it. Errors: Denied, Invalid.
func Prepare(dir string, parts ...string) error {
	w := walk{make: true}
	if err := w.to(dir); err != nil {
		return err
	}
	for _, part := range append([]string{"."}, parts...) {
		path := filepath.Join(dir, part) // to which only the caller can lead
		info, err := w.stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return sandbox.Invalidf("store", "%s is not a directory", path)
		}
		if err := ownedByCaller(path, info); err != nil {
			return err
		}
	}
	return nil
}

func ownedByCaller(dir string, info os.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("storedir: the owner of %s cannot be read", dir)
	}
	if int(stat.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return denied("use a directory of your own with mode 0711", "%s belongs to another user or may be written by others (uid %d, mode %v)", dir, stat.Uid, info.Mode().Perm())
	}
	return nil
}

func denied(remedy, format string, args ...any) error {
	return &sandbox.Error{Class: sandbox.Denied, Op: "storedir", Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}
