//go:build linux

package guest

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"aether/internal/host/inroot"

	pb "aether/guest/wire/filesystem"
)

// describer describes files to a caller.
type describer struct {
	*caller
	guestID       func(uid, gid uint32) (uint32, uint32)
	users, groups map[uint32]string
}

func (s *Service) describer(c *caller) *describer {
	return &describer{c, s.backend.GuestID, names(userFile(c.root, "/etc/passwd")), names(userFile(c.root, "/etc/group"))}
}

// lookup describes what is at an absolute path.
func (d *describer) lookup(name string) (*pb.EntryInfo, error) {
	f, err := d.root.Entry(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return d.entry(name, f)
}

// entry describes an entry that is opened for its path only, shown at name.
func (d *describer) entry(name string, f *os.File) (*pb.EntryInfo, error) {
	info, err := inroot.StatFile(f)
	if err != nil {
		return nil, err
	}
	uid, gid := d.guestID(info.UID, info.GID)
	e := &pb.EntryInfo{
		Name: text(path.Base(name)), Path: text(name), Type: fileType(info.Mode), Size: info.Size,
		Mode: uint32(info.Mode.Perm()), Permissions: info.Mode.String(),
		Owner: nameOf(d.users, uid), Group: nameOf(d.groups, gid), ModifiedTime: timestamppb.New(info.Modified),
	}
	if info.Mode&fs.ModeSymlink != 0 {
		d.follow(name, e)
		return e, nil
	}
	if info.Mode.IsRegular() {
		err = d.attach(f, e)
	}
	return e, err
}

// follow describes what a link leads to. One that leads nowhere has no type and
// shows itself as its target.
func (d *describer) follow(name string, e *pb.EntryInfo) {
	target := text(name)
	e.SymlinkTarget, e.Type, e.Mode = &target, pb.FileType_FILE_TYPE_UNSPECIFIED, 0
	to, err := d.root.Resolve(name)
	if err != nil {
		return
	}
	info, err := d.root.Stat(to)
	if err != nil {
		return
	}
	target = text(to)
	e.Type, e.Mode = fileType(info.Mode), uint32(info.Mode.Perm())
}

func (d *describer) attach(f *os.File, e *pb.EntryInfo) error {
	attrs, err := inroot.Attrs(f, metadataAttr)
	for key, value := range attrs {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			delete(attrs, key)
		}
	}
	e.Metadata = attrs
	return err
}

func fileType(mode fs.FileMode) pb.FileType {
	switch {
	case mode.IsRegular():
		return pb.FileType_FILE_TYPE_FILE
	case mode.IsDir():
		return pb.FileType_FILE_TYPE_DIRECTORY
	case mode&fs.ModeSymlink != 0:
		return pb.FileType_FILE_TYPE_SYMLINK
	}
	return pb.FileType_FILE_TYPE_UNSPECIFIED
}

func nameOf(names map[uint32]string, id uint32) string {
	if name, ok := names[id]; ok {
		return text(name)
	}
	return strconv.FormatUint(uint64(id), 10)
}

// text makes bytes of the sandbox's choice fit for a protobuf string.
func text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
