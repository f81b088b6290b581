package storedir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll removes what a sandbox has written, which must have ended. Directories
// that it, or an overlay, has closed to their owner are opened first.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	return errors.Join(err, os.RemoveAll(dir))
}
