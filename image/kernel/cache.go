package kernel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OpenUnpacked opens the kernel itself, which is unpacked into dir once. Whoever
// has it open keeps it; everybody may read it.
func (k Kernel) OpenUnpacked(ctx context.Context, dir string) (*os.File, error) {
	info, err := os.Stat(k.Image)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d", k.Image, info.Size(), info.ModTime().UnixNano()))
	final := filepath.Join(dir, "vmlinux-"+hex.EncodeToString(sum[:8]))
	file, err := os.Open(final)
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	data, err := k.Unpacked(ctx)
	if err != nil {
		return nil, err
	}
	if err := writeWhole(final, data); err != nil {
		return nil, err
	}
	return os.Open(final)
}

// writeWhole gives the file its name when it has its content. Two programs that
// do so at a time write the same.
func writeWhole(name string, data []byte) error {
	work, err := os.CreateTemp(filepath.Dir(name), ".vmlinux-")
	if err != nil {
		return err
	}
	_, err = work.Write(data)
	err = errors.Join(err, work.Chmod(0o644), work.Sync(), work.Close())
	if err == nil {
		err = os.Rename(work.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(work.Name()))
	}
	return nil
}
