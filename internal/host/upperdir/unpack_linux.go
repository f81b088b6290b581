package upperdir

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// Unpack brings what Pack has written into the root of a sandbox that was just made of the
// same image, and in which nothing runs yet. No name leads out of the root, or through a
// link. After an error the sandbox is good for nothing. Errors: Invalid for an archive
// that is none of Pack's, Exhausted if there is not enough room.
func Unpack(ctx context.Context, from io.Reader, root *os.File) error {
	return newUnpacker(ctx, from, root, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS).run()
}

// UnpackWithin is Unpack for a root in which something else is mounted. That is left as it
// is, whatever the archive has by such a name.
func UnpackWithin(ctx context.Context, from io.Reader, root *os.File) error {
	return newUnpacker(ctx, from, root, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_XDEV).run()
}

func newUnpacker(ctx context.Context, from io.Reader, root *os.File, resolve uint64) *unpacker {
	return &unpacker{ctx: ctx, root: int(root.Fd()), resolve: resolve, from: tar.NewReader(bufio.NewReaderSize(from, chunk/4)),
		parent: -1, dirs: map[string]int{}}
}

func (u *unpacker) run() error {
	defer u.forgetParent()
	for {
		h, err := u.from.Next()
		if errors.Is(err, io.EOF) {
			return u.setDirs()
		}
		if err != nil {
			return broken("the archive", err)
		}
		if err := u.ctx.Err(); err != nil {
			return err
		}
		if err := u.around(u.entry(h)); err != nil {
			return fault("unpack", h.Name, err)
		}
	}
}

func broken(name string, err error) error {
	return &sandbox.Error{Class: sandbox.Invalid, Op: "upper: unpack", Reason: fmt.Sprintf("%.200q is damaged", name), Err: err}
}

// around forgives what cannot be because of something that is mounted there, where that
// is to be left as it is.
func (u *unpacker) around(err error) error {
	if u.resolve&unix.RESOLVE_NO_XDEV != 0 && (err == unix.EXDEV || err == unix.EBUSY) {
		return nil
	}
	return err
}

type unpacker struct {
	ctx     context.Context
	root    int
	resolve uint64 // how names are looked up
	from    *tar.Reader

	// parent is the last one, since archives list directory by directory.
	parent     int
	parentName string

	// made are the directories, whose times change with what is put into them, and dirs
	// where each is: the last header of a name counts.
	made []*tar.Header
	dirs map[string]int
}

func (u *unpacker) entry(h *tar.Header) error {
	if len(u.made) > MaxEntries {
		return errTooMany
	}
	for record := range h.PAXRecords {
		if strings.HasPrefix(record, "GNU.") { // such as make an endless file of a short archive
			return broken(h.Name, nil)
		}
	}
	h.Name = strings.TrimSuffix(h.Name, "/")
	if h.Name == "." {
		u.remember(h)
		if h.PAXRecords[wholeRecord] != "" {
			return empty(u.ctx, u.root, ".", 0)
		}
		return nil
	}
	if path.Clean("/"+h.Name) != "/"+h.Name || h.Name == "" {
		return broken(h.Name, nil)
	}
	dir, base := path.Split(h.Name)
	parent, err := u.open(path.Clean("./" + dir))
	if err != nil {
		return err
	}
	return u.place(parent, base, h)
}

// open gives a directory that an earlier entry has made or that the image has.
func (u *unpacker) open(name string) (int, error) {
	if u.parent >= 0 && u.parentName == name {
		return u.parent, nil
	}
	fd, err := u.openAt(name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	u.forgetParent()
	u.parent, u.parentName = fd, name
	return fd, nil
}

func (u *unpacker) openAt(name string, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: u.resolve}
	for {
		fd, err := unix.Openat2(u.root, name, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

func (u *unpacker) forgetParent() {
	if u.parent >= 0 {
		unix.Close(u.parent)
		u.parent = -1
	}
}

func (u *unpacker) place(parent int, name string, h *tar.Header) error {
	if h.Typeflag == tar.TypeDir {
		return u.directory(parent, name, h)
	}
	if err := remove(u.ctx, parent, name, 0); err != nil || h.Typeflag == tar.TypeChar {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		return u.file(parent, name, h)
	case tar.TypeLink:
		return u.link(parent, name, h.Linkname)
	case tar.TypeSymlink:
		return u.nodeMade(unix.Symlinkat(h.Linkname, parent, name), parent, name, h)
	case tar.TypeFifo:
		return u.nodeMade(unix.Mknodat(parent, name, unix.S_IFIFO|0o600, 0), parent, name, h)
	case tar.TypeBlock:
		return u.nodeMade(unix.Mknodat(parent, name, unix.S_IFSOCK|0o600, 0), parent, name, h)
	}
	return broken(h.Name, nil)
}

// directory keeps the one that is there, unless it is to show nothing of the image.
func (u *unpacker) directory(parent int, name string, h *tar.Header) error {
	var st unix.Stat_t
	err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	there := err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
	if there && h.PAXRecords[opaqueRecord] == "" {
		u.remember(h)
		return nil
	}
	u.remember(h)
	if err := remove(u.ctx, parent, name, 0); err != nil {
		return err
	}
	return unix.Mkdirat(parent, name, 0o700)
}

func (u *unpacker) remember(h *tar.Header) {
	if at, ok := u.dirs[h.Name]; ok {
		u.made[at] = h
		return
	}
	u.dirs[h.Name] = len(u.made)
	u.made = append(u.made, h)
}

func (u *unpacker) link(parent int, name, to string) error {
	if path.Clean("/"+to) != "/"+to {
		return broken(to, nil)
	}
	dir, err := u.openAt(path.Clean("./"+path.Dir(to)), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Linkat(dir, path.Base(to), parent, name, 0)
}

func (u *unpacker) file(parent int, name string, h *tar.Header) error {
	fd, err := unix.Openat(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), h.Name)
	defer file.Close()
	if err := u.content(file, h); err != nil {
		return full(err)
	}
	return setOpen(fd, h)
}

// full is the reason of a write that failed, by which fault knows a lack of room.
func full(err error) error {
	if failed := (*os.PathError)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

func (u *unpacker) content(file *os.File, h *tar.Header) error {
	text, sparse := h.PAXRecords[sizeRecord]
	if !sparse {
		_, err := io.Copy(file, u.from)
		return err
	}
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 {
		return broken(h.Name, err)
	}
	for {
		var x Extent
		switch err := binary.Read(u.from, binary.BigEndian, &x); {
		case errors.Is(err, io.EOF):
			return file.Truncate(size)
		case err != nil:
			return broken(h.Name, err)
		case x.Offset < 0 || x.Length < 0 || x.Offset > size-x.Length:
			return broken(h.Name, nil)
		}
		if _, err := io.CopyN(io.NewOffsetWriter(file, x.Offset), u.from, x.Length); err != nil {
			return err
		}
	}
}

// nodeMade sets what cannot be opened, once it is made: a link, a fifo or a socket.
func (u *unpacker) nodeMade(err error, parent int, name string, h *tar.Header) error {
	if err != nil {
		return err
	}
	if err := unix.Fchownat(parent, name, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if h.Typeflag != tar.TypeSymlink {
		if err := chmodAt(parent, name, uint32(h.Mode)&0o7777); err != nil {
			return err
		}
	}
	return unix.UtimesNanoAt(parent, name, timespecs(h.AccessTime, h.ModTime), unix.AT_SYMLINK_NOFOLLOW)
}

// setDirs ends the work, the deepest directories first.
func (u *unpacker) setDirs() error {
	for i := len(u.made) - 1; i >= 0; i-- {
		h := u.made[i]
		fd, err := u.openAt(h.Name, unix.O_RDONLY|unix.O_DIRECTORY)
		if err == unix.ENOENT || err != nil && u.around(err) == nil {
			continue // a later entry took its place, or something is mounted there
		}
		if err == nil {
			err = setOpen(fd, h)
			unix.Close(fd)
		}
		if err != nil {
			return fault("set", h.Name, err)
		}
	}
	return nil
}

// setOpen gives an open file or directory its attributes, owner, mode and times, in the
// order of set.
func setOpen(fd int, h *tar.Header) error {
	for record, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(record, attrRecord)
		if !ok {
			continue
		}
		attr, err := hex.DecodeString(name)
		content, failed := hex.DecodeString(value)
		if err != nil || failed != nil || !strings.HasPrefix(string(attr), "user.") {
			return broken(h.Name, errors.Join(err, failed))
		}
		if err := unix.Fsetxattr(fd, string(attr), content, 0); err != nil {
			return err
		}
	}
	if err := unix.Fchown(fd, h.Uid, h.Gid); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, uint32(h.Mode)&0o7777); err != nil {
		return err
	}
	return setTimes(fd, h.AccessTime, h.ModTime)
}
