package cgroup

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// prefix begins the names of all parent groups, and nothing else does.
	prefix     = "aether-"
	lockSuffix = ".cgroup"
	maxRecord  = 64 << 10
)

// newLock makes a locked file with a random identity. The lock is of the open
// file: it ends when the program does, provided that no child keeps a copy of
// the descriptor beyond its exec.
func newLock(runDir string) (*os.File, string, error) {
	for {
		file, id, err := tryLock(runDir)
		// Reap of another program may take the file before we lock it, finds it
		// empty and removes it.
		if !errors.Is(err, errHeld) {
			return file, id, err
		}
	}
}

func tryLock(runDir string) (*os.File, string, error) {
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, "", err
	}
	id := hex.EncodeToString(random[:])
	file, err := os.OpenFile(filepath.Join(runDir, prefix+id+lockSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", err
	}
	if err := takeLock(file); err != nil {
		return nil, "", errors.Join(err, file.Close())
	}
	return file, id, nil
}

// errHeld: the lock belongs to a living program, or the file has gone meanwhile.
var errHeld = errors.New("the lock is held")

// takeLock locks the file, and then makes sure that it still has its name:
// whoever removes a lock file holds its lock.
func takeLock(file *os.File) error {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return errHeld
	}
	if err != nil {
		return err
	}
	named, err := os.Lstat(file.Name())
	if os.IsNotExist(err) {
		return errHeld
	}
	if err != nil {
		return err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = errHeld
	}
	return err
}

// writeRecord notes the directories that belong to the lock, one on a line: a
// later program may run in other groups and could not guess them.
func writeRecord(lock *os.File, trees []tree, name string) error {
	var record strings.Builder
	for _, t := range trees {
		fmt.Fprintln(&record, path.Join(t.base, name))
	}
	_, err := lock.WriteAt([]byte(record.String()), 0)
	return err
}

// readRecord gives the directories again, and nothing that this package would
// not have made: each is named as the lock file is.
func readRecord(lock *os.File) ([]string, error) {
	name := strings.TrimSuffix(filepath.Base(lock.Name()), lockSuffix)
	var dirs []string
	lines := bufio.NewScanner(io.NewSectionReader(lock, 0, maxRecord))
	for lines.Scan() {
		dir := lines.Text()
		if path.Base(dir) != name || !path.IsAbs(dir) {
			return nil, fmt.Errorf("%s names %.200q, which is not its own", lock.Name(), dir)
		}
		dirs = append(dirs, dir)
	}
	return dirs, lines.Err()
}

// isGroup says whether a directory is a control group at all.
func isGroup(dir string) (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return false, err
	}
	return st.Type == unix.CGROUP_SUPER_MAGIC || st.Type == unix.CGROUP2_SUPER_MAGIC, nil
}
