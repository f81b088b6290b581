//go:build unix

package storedir

import (
	"io/fs"
	"path/filepath"
	"syscall"
)

// Size is what a file, or everything below a directory, takes of the disk. A file with
// several names there counts once for each. It follows no link.
func Size(root string) (bytes int64, err error) {
	err = filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += stat.Blocks * 512
		}
		return nil
	})
	return bytes, err
}
