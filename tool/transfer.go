package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"aether/guest"
	"aether/sandbox"
)

const (
	// maxTransferred bounds a file that goes to or comes from the shared directory.
	maxTransferred = 1 << 30
	linkTime       = 10 * time.Minute
)

type uploadArgs struct {
	pathArgs
	From string `json:"from,omitempty" jsonschema:"file of the shared directory; without it, a URL to POST to is answered"`
}

type downloadArgs struct {
	pathArgs
	To string `json:"to,omitempty" jsonschema:"new file of the shared directory; without it, a URL to GET is answered"`
}

func transferTools() []*Tool {
	return []*Tool{
		define("file_upload", Destroys, "Bring a file of any size into a sandbox without reading it: from the directory that is shared with this server, or by a URL.", (*Session).upload),
		define("file_download", Writes, "Take a file of any size out of a sandbox without reading it: to the directory that is shared with this server, or by a URL.", (*Session).download),
	}
}

// Link gives a URL by which one file of a sandbox can be read, or written, until a time.
type Link func(sandbox, path string, write bool, until time.Time) (string, error)

// Transfer is a file that was carried, or by which request it can be.
type Transfer struct {
	Path  string `json:"path"`
	Bytes *int64 `json:"bytes,omitempty"`
	// URL takes one request of the Method, without a key, until Expires.
	URL     string    `json:"url,omitempty"`
	Method  string    `json:"method,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

func (s *Session) upload(ctx context.Context, in uploadArgs) (done Transfer, err error) {
	if in.From == "" {
		return s.link(ctx, in.pathArgs, "POST")
	}
	err = s.at(ctx, in.pathArgs, func(client *guest.Client) error {
		file, err := s.openShared(in.From)
		if err != nil {
			return err
		}
		defer file.Close()
		counted := &counter{from: io.LimitReader(file, maxTransferred)}
		if err := client.Write(ctx, in.Path, counted); err != nil {
			return err
		}
		done = Transfer{Path: in.Path, Bytes: &counted.bytes}
		return nil
	})
	return done, err
}

func (s *Session) download(ctx context.Context, in downloadArgs) (done Transfer, err error) {
	if in.To == "" {
		return s.link(ctx, in.pathArgs, "GET")
	}
	err = s.at(ctx, in.pathArgs, func(client *guest.Client) error {
		contents, err := client.Read(ctx, in.Path)
		if err != nil {
			return err
		}
		defer contents.Close()
		bytes, err := s.writeShared(in.To, contents)
		done = Transfer{Path: in.Path, Bytes: &bytes}
		return err
	})
	return done, err
}

// link gives a URL for one file, and says by which method it is to be used.
func (s *Session) link(ctx context.Context, in pathArgs, method string) (done Transfer, err error) {
	if err := checkPath("path", in.Path); err != nil {
		return done, err
	}
	if _, err := s.enter(ctx, in.Sandbox, 0); err != nil {
		return done, err
	}
	if s.opts.Link == nil {
		return done, &sandbox.Error{Class: sandbox.Unsupported, Reason: "this server has no address for files", Remedy: "name a file of the shared directory, if there is one; or use file_read and file_write"}
	}
	done = Transfer{Path: in.Path, Method: method, Expires: time.Now().Add(linkTime).Truncate(time.Second)}
	done.URL, err = s.opts.Link(in.Sandbox, in.Path, method == "POST", done.Expires)
	return done, err
}

// shared checks a name in the shared directory. Names and links that lead out of it are refused by
// os.Root too.
func (s *Session) shared(field, name string) error {
	if s.opts.Files == nil {
		return &sandbox.Error{Class: sandbox.Unsupported, Field: field, Reason: "no directory is shared with this server", Remedy: "leave " + field + " out for a URL; or have one shared, by aether mcp --files DIR"}
	}
	if !filepath.IsLocal(name) {
		return &sandbox.Error{Class: sandbox.Denied, Field: field, Reason: "it leads out of the shared directory", Remedy: "give a path below it, as data/input.csv"}
	}
	return nil
}

// sharedError is what of the shared directory callers are told.
func sharedError(field string, err error) error {
	e := &sandbox.Error{Class: sandbox.Denied, Field: field, Reason: "the shared directory does not let this be done", Err: err}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.Class, e.Reason = sandbox.NotFound, "the shared directory has no such file or directory"
	case errors.Is(err, fs.ErrExist):
		e.Class, e.Reason, e.Remedy = sandbox.Conflict, "it is there, and nothing is replaced", "give another name"
	}
	return e
}

// openShared opens a plain file of the shared directory.
func (s *Session) openShared(name string) (*os.File, error) {
	const field = "from"
	if err := s.shared(field, name); err != nil {
		return nil, err
	}
	// What is none would have its opening wait, as that of a pipe.
	if info, err := s.opts.Files.Stat(name); err != nil {
		return nil, sharedError(field, err)
	} else if err := plainFile(info); err != nil {
		return nil, err
	}
	file, err := s.opts.Files.Open(name)
	if err != nil {
		return nil, sharedError(field, err)
	}
	info, err := file.Stat()
	if err == nil {
		err = plainFile(info)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func plainFile(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return sandbox.Invalidf("from", "it is no plain file")
	}
	if info.Size() > maxTransferred {
		return &sandbox.Error{Class: sandbox.Exhausted, Field: "from", Reason: fmt.Sprintf("the file has %d bytes, more than %d", info.Size(), maxTransferred)}
	}
	return nil
}

// writeShared writes a new file of the shared directory, whole or not at all.
func (s *Session) writeShared(name string, contents io.Reader) (bytes int64, err error) {
	const field = "to"
	if err := s.shared(field, name); err != nil {
		return 0, err
	}
	file, err := s.opts.Files.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, sharedError(field, err)
	}
	bytes, err = io.Copy(file, io.LimitReader(contents, maxTransferred+1))
	if err == nil && bytes > maxTransferred {
		err = &sandbox.Error{Class: sandbox.Exhausted, Field: "path", Reason: fmt.Sprintf("the file has more than %d bytes", maxTransferred)}
	}
	if err = errors.Join(err, file.Close()); err != nil {
		err = errors.Join(err, s.opts.Files.Remove(name))
	}
	return bytes, err
}

// counter counts what is read.
type counter struct {
	from  io.Reader
	bytes int64
}

// Read implements io.Reader.
func (c *counter) Read(to []byte) (int, error) {
	n, err := c.from.Read(to)
	c.bytes += int64(n)
	return n, err
}
