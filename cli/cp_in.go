package cli

import (
	"archive/tar"
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
)

// in copies from this host into the sandbox.
func (c *copying) in(ctx context.Context, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return &sandbox.Error{Class: sandbox.NotFound, Op: "copy", Err: err}
	}
	source, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	dir, name, err := c.target(ctx, to, filepath.Base(source), info.IsDir())
	if err != nil {
		return err
	}
	err = c.pack(ctx, source, dir, name)
	if errors.Is(err, errNoTar) && info.Mode().IsRegular() {
		return c.write(ctx, source, path.Join(dir, name))
	}
	return err
}

// target is the directory of the sandbox into which the source goes, and its name there.
func (c *copying) target(ctx context.Context, to, base string, tree bool) (dir, name string, err error) {
	at, info, err := c.stat(ctx, rooted(to))
	switch {
	case err == nil && isDirectory(info):
		return at, base, nil
	case err == nil && tree:
		return "", "", &sandbox.Error{Class: sandbox.Conflict, Op: "copy", Reason: rooted(to) + " is no directory"}
	case err == nil:
		return path.Dir(at), path.Base(at), nil
	case sandbox.ClassOf(err) != sandbox.NotFound || ofSandbox(err) != err:
		return "", "", err
	case strings.HasSuffix(to, "/"):
		return "", "", &sandbox.Error{Class: sandbox.NotFound, Op: "copy", Reason: "there is no directory " + rooted(to), Remedy: "make it, or leave the last / out"}
	}
	return path.Dir(rooted(to)), path.Base(rooted(to)), nil
}

// pack has the sandbox unpack an archive of the source, which is made as it is sent.
func (c *copying) pack(ctx context.Context, source, dir, name string) error {
	archive, to := io.Pipe()
	var said capture
	running, err := c.tar(ctx, guest.Cmd{Args: []string{"-x", "-o", "-p", "-f", "-", "-C", dir}, Stdin: archive, Stderr: &said, Stdout: &said})
	if err != nil {
		return errors.Join(err, archive.Close())
	}
	packed := make(chan error, 1)
	go func() {
		err := c.packTree(to, source, name)
		to.CloseWithError(err) // and the end of the archive without one
		packed <- err
	}()
	status, err := running.Wait()
	archive.CloseWithError(io.ErrClosedPipe) // an archive that nobody reads any more
	failed := <-packed
	switch {
	case ctx.Err() != nil:
		abandon(running)
		return ctx.Err()
	case failed != nil && !errors.Is(failed, io.ErrClosedPipe):
		return failed // for which tar found the archive cut short
	case err != nil:
		return err
	}
	return tarError(status, &said)
}

// packTree writes the archive of a file or directory, under another name.
func (c *copying) packTree(to io.Writer, source, name string) error {
	archive := tar.NewWriter(to)
	err := filepath.WalkDir(source, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(source, at)
		if err != nil {
			return err
		}
		return c.packOne(archive, at, path.Join(name, filepath.ToSlash(below)), at == source)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// packOne writes one entry. The source itself may be a link, which is followed.
func (c *copying) packOne(archive *tar.Writer, at, name string, follow bool) error {
	info, err := os.Lstat(at)
	if err == nil && follow {
		info, err = os.Stat(at)
	}
	if err != nil {
		return err
	}
	link := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(at); err != nil {
			return err
		}
	case !info.Mode().IsRegular() && !info.IsDir():
		c.leftOut++
		return nil
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	// Whoever unpacks it owns it. PAX knows times to the nanosecond.
	*header = tar.Header{Typeflag: header.Typeflag, Name: name, Linkname: link, Size: header.Size, Mode: header.Mode, ModTime: header.ModTime, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return packFile(archive, at, header.Size)
}

func packFile(to io.Writer, at string, size int64) error {
	file, err := os.Open(at)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.CopyN(to, file, size)
	if err == io.EOF {
		return &sandbox.Error{Class: sandbox.Conflict, Op: "copy " + at, Reason: "it became shorter meanwhile"}
	}
	return err
}

// write copies the contents of one file, without its mode and time.
func (c *copying) write(ctx context.Context, source, to string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	return c.inside.Write(ctx, to, file)
}
