package inroot

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestMkdirFor: the topmost directory that is missing is the owner's, who may make the rest;
// what is there, or was put there by somebody else, is not given away.
func TestMkdirFor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives directories away")
	}
	root, inside, _ := place(t)
	maker, owner := Identity{12345, 12345}, Identity{54321, 54321}
	must(t, os.Chown(inside, maker.UID, maker.GID))
	must(t, root.MkdirFor("/place/deep/er", 0o755, maker, owner))
	info, err := os.Stat(filepath.Join(inside, "place"))
	must(t, err)
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != owner.UID || int(st.Gid) != owner.GID {
		t.Errorf("it is %d's", st.Uid)
	}
	if err := owner.Do(func() error { return root.MkdirAll("/place/deep/er", 0o755) }); err != nil {
		t.Error(err)
	}
	must(t, os.Mkdir(filepath.Join(inside, "there"), 0o755))
	must(t, root.MkdirFor("/there", 0o755, maker, owner))
	info, err = os.Stat(filepath.Join(inside, "there"))
	must(t, err)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 {
		t.Errorf("what was there is given to %d", st.Uid)
	}
	dir, err := os.Open(filepath.Join(inside, "there"))
	must(t, err)
	defer dir.Close()
	if err := give(dir, maker, owner); !errors.Is(err, syscall.EPERM) {
		t.Errorf("what is not the maker's is given: %v", err)
	}
	if err := root.MkdirFor("/there/x", 0o755, maker, owner); !errors.Is(err, syscall.EACCES) {
		t.Errorf("the maker may not write there: %v", err)
	}
}
