//go:build linux

package guest

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"strings"
	"syscall"

	"aether/internal/host/inroot"
	"aether/sandbox"
)

const (
	maxParts   = 4096
	copyBuffer = 128 << 10
	newFile    = 0o644
	newDir     = 0o755
)

// written is what the answer to an upload says of each file.
type written struct {
	Path     string            `json:"path"`
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

func (s *Service) upload(w http.ResponseWriter, r *http.Request) {
	c, err := s.fileRequest(r, opWrite)
	if err != nil {
		httpError(w, err)
		return
	}
	defer c.done()
	done, err := c.receive(r)
	if err != nil {
		httpError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, done)
}

func (c *caller) receive(r *http.Request) ([]written, error) {
	meta, err := metadataOf(r.Header)
	if err != nil {
		return nil, err
	}
	if err := decompress(r); err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	name, named := r.URL.Query().Get("path"), r.URL.Query().Has("path")
	switch {
	case kind == "application/octet-stream" && named:
		one, err := c.receiveFile(name, r.Body, meta)
		return []written{one}, err
	case kind == "application/octet-stream":
		return nil, sandbox.Invalidf("path", "it is missing")
	case strings.HasPrefix(kind, "multipart/"):
		return c.receiveParts(r, name, meta)
	}
	return nil, sandbox.Invalidf("Content-Type", "%q is neither multipart/form-data nor application/octet-stream", clip(kind))
}

func decompress(r *http.Request) error {
	switch encoding := r.Header.Get("Content-Encoding"); {
	case encoding == "" || strings.EqualFold(encoding, "identity"):
		return nil
	case strings.EqualFold(encoding, "gzip"):
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			return &sandbox.Error{Class: sandbox.Invalid, Field: "body", Reason: "it is not gzip", Err: err}
		}
		r.Body = body
		return nil
	default:
		return sandbox.Invalidf("Content-Encoding", "%q is not known; use gzip", clip(encoding))
	}
}

// receiveParts writes each part named "file" to the path of the request or, for
// several, to the path that is the part's file name.
func (c *caller) receiveParts(r *http.Request, name string, meta map[string]string) ([]written, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, badBody(err)
	}
	done := []written{}
	taken := map[string]bool{}
	for range maxParts {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			return done, nil
		}
		if err != nil {
			return nil, badBody(err)
		}
		if part.FormName() != "file" {
			continue
		}
		one, err := c.receivePart(part, name, taken, meta)
		if err != nil {
			return nil, err
		}
		done = append(done, one)
	}
	return nil, sandbox.Invalidf("body", "it has more than %d parts", maxParts)
}

func (c *caller) receivePart(part *multipart.Part, name string, taken map[string]bool, meta map[string]string) (written, error) {
	if name == "" {
		// Part.FileName would cut the directories off.
		_, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil || params["filename"] == "" {
			return written{}, sandbox.Invalidf("file", "the part has no file name, and there is no path")
		}
		name = params["filename"]
	}
	full, err := c.path(name)
	if err != nil {
		return written{}, err
	}
	if taken[full] {
		return written{}, sandbox.Invalidf("file", "%q is in the request twice", clip(full))
	}
	taken[full] = true
	return c.receiveFile(full, part, meta)
}

func badBody(err error) error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: "body", Reason: "it is not a whole form", Err: err}
}

// receiveFile writes one file of any size. Readers see the old one or all of the
// new one. The bytes flow outside of the user's identity, which holds a thread.
func (c *caller) receiveFile(name string, body io.Reader, meta map[string]string) (written, error) {
	name, err := c.path(name)
	if err != nil {
		return written{}, err
	}
	if err := c.makeParents(path.Dir(name)); err != nil {
		return written{}, err
	}
	var out fileWriter
	err = c.as.Do(func() (err error) {
		out, err = c.create(name)
		return err
	})
	if err != nil {
		return written{}, err
	}
	kept, err := fill(out.file(), body, meta)
	if err != nil {
		return written{}, errors.Join(err, c.as.Do(out.discard))
	}
	if err := c.as.Do(out.commit); err != nil {
		return written{}, err
	}
	return written{name, path.Base(name), "file", kept}, nil
}

func fill(f *os.File, body io.Reader, meta map[string]string) (map[string]string, error) {
	// The struct hides ReadFrom, whose buffer is smaller.
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, body, make([]byte, copyBuffer)); err != nil {
		return nil, bodyError(err)
	}
	return setMetadata(f, meta)
}

// bodyError tells a file that could not be written from a body that broke off.
func bodyError(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return err
	}
	return &sandbox.Error{Class: sandbox.Invalid, Field: "body", Reason: "it broke off", Err: err}
}

// fileWriter is a file on its way.
type fileWriter struct {
	draft *inroot.Draft
	plain *os.File
}

// create starts a draft. Where the directory takes no new files but the file
// itself may be written, it is written in place.
func (c *caller) create(name string) (fileWriter, error) {
	draft, err := c.root.NewDraft(name, newFile)
	if err == nil || !(errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EROFS)) {
		return fileWriter{draft: draft}, err
	}
	f, plainErr := c.root.Open(name, os.O_WRONLY, 0)
	if plainErr != nil {
		return fileWriter{}, err
	}
	info, err := inroot.StatFile(f)
	special, failed := inroot.Special(f)
	switch {
	case err != nil || failed != nil:
		return fileWriter{}, errors.Join(err, failed, f.Close())
	case !info.Mode.IsRegular() || special:
		return fileWriter{}, errors.Join(sandbox.Invalidf("path", "%q is no file that holds what is written to it", clip(name)), f.Close())
	}
	if err := f.Truncate(0); err != nil {
		return fileWriter{}, errors.Join(err, f.Close())
	}
	return fileWriter{plain: f}, nil
}

func (w fileWriter) file() *os.File {
	if w.draft != nil {
		return w.draft.File
	}
	return w.plain
}

func (w fileWriter) commit() error {
	if w.draft != nil {
		return w.draft.Commit()
	}
	return w.plain.Close()
}

func (w fileWriter) discard() error {
	if w.draft != nil {
		return w.draft.Discard()
	}
	return w.plain.Close()
}
