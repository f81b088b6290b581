package cli

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"aether/guest"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

// out copies from the sandbox to this host.
func (c *copying) out(ctx context.Context, from, to string) error {
	source, info, err := c.stat(ctx, rooted(from))
	if err != nil {
		return err
	}
	target, err := localTarget(to, path.Base(rooted(from)))
	if err != nil {
		return err
	}
	if isDirectory(info) {
		return c.outTree(ctx, source, target)
	}
	return c.outFile(ctx, source, target, info)
}

// localTarget is where on this host the source goes.
func localTarget(to, base string) (string, error) {
	info, err := os.Stat(to)
	switch {
	case err == nil && info.IsDir() && base != "/":
		return filepath.Join(to, base), nil
	case err == nil && info.IsDir():
		return to, nil // the whole root, into it
	case err != nil && strings.HasSuffix(to, "/"):
		return "", &sandbox.Error{Class: sandbox.NotFound, Op: "copy", Reason: "there is no directory " + to, Remedy: "make it, or leave the last / out"}
	}
	return to, nil
}

// outTree unpacks a directory into one of this host, and nothing anywhere else. A link at
// its name, which an earlier copy may have brought, is not followed.
func (c *copying) outTree(ctx context.Context, source, target string) error {
	root, made, err := openTarget(target)
	if err != nil {
		return err
	}
	defer root.Close()
	err = c.unpack(ctx, source, &unpacking{root: root, base: path.Base(source), kept: !made})
	if err != nil && made {
		_ = os.Remove(target) // unless something was copied into it
	}
	return err
}

// openTarget opens a directory, and says whether it had to be made.
func openTarget(target string) (root *os.Root, made bool, err error) {
	target, err = filepath.Abs(target)
	if err != nil {
		return nil, false, err
	}
	if target == "/" {
		root, err = os.OpenRoot(target)
		return root, false, err
	}
	parent, err := os.OpenRoot(filepath.Dir(target))
	if err != nil {
		return nil, false, err
	}
	defer parent.Close()
	name := filepath.Base(target)
	info, err := parent.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		made, err = true, parent.Mkdir(name, 0o700)
	case err == nil && !info.IsDir():
		err = &sandbox.Error{Class: sandbox.Conflict, Op: "copy", Reason: target + " is there, and no directory", Remedy: "remove it, or copy to another name"}
	}
	if err != nil {
		return nil, false, err
	}
	root, err = parent.OpenRoot(name)
	return root, made, err
}

// outFile unpacks one file.
func (c *copying) outFile(ctx context.Context, source, target string, info *pb.EntryInfo) error {
	root, err := os.OpenRoot(filepath.Dir(target))
	if err != nil {
		return err
	}
	defer root.Close()
	name := filepath.Base(target)
	err = c.unpack(ctx, source, &unpacking{root: root, base: path.Base(source), file: name})
	if errors.Is(err, errNoTar) {
		err = c.read(ctx, root, source, name, info)
	}
	return err
}

// unpack has the sandbox pack the source, and unpacks what comes as it comes.
func (c *copying) unpack(ctx context.Context, source string, u *unpacking) error {
	archive, to := io.Pipe()
	var said capture
	running, err := c.tar(ctx, guest.Cmd{Args: []string{"-c", "-f", "-", "-C", path.Dir(source), "./" + strings.TrimPrefix(path.Base(source), "/")}, Stdout: to, Stderr: &said})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	var status guest.Status
	go func() {
		var err error
		status, err = running.Wait()
		to.CloseWithError(err) // and the end of the archive without one
		ended <- err
	}()
	failed := u.all(archive)
	c.leftOut += u.leftOut
	if failed != nil && failed != errNothing {
		archive.CloseWithError(failed)
		abandon(running)
	}
	err = <-ended
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil && failed != errNothing:
		return failed
	case err != nil:
		return err
	}
	return cmp.Or(tarError(status, &said), failed)
}

// read copies one file without tar.
func (c *copying) read(ctx context.Context, root *os.Root, source, name string, info *pb.EntryInfo) error {
	contents, err := c.inside.Read(ctx, source)
	if err != nil {
		return err
	}
	defer contents.Close()
	u := &unpacking{root: root, file: name}
	return u.only(&tar.Header{Typeflag: tar.TypeReg, Mode: int64(info.GetMode()), ModTime: info.GetModifiedTime().AsTime()}, ".", contents)
}
