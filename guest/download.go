//go:build linux

package guest

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"path"
	"syscall"

	"aether/internal/host/inroot"
	"aether/sandbox"
)

// fileRequest is what both directions of /files have in common.
func (s *Service) fileRequest(r *http.Request, operation string) (*caller, error) {
	if err := authorizeFile(r, operation, s.current().token); err != nil {
		return nil, err
	}
	return s.caller(r.Header, r.URL.Query().Get("username"))
}

func (s *Service) download(w http.ResponseWriter, r *http.Request) {
	c, err := s.fileRequest(r, opRead)
	if err != nil {
		httpError(w, err)
		return
	}
	defer c.done()
	f, info, err := c.openFile(r.URL.Query().Get("path"))
	if err != nil {
		httpError(w, err)
		return
	}
	defer f.Close()
	h := w.Header()
	// The bytes are the sandbox's: no browser may take them for a page.
	h.Set("Content-Type", "application/octet-stream")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(f.Name())}))
	special, err := inroot.Special(f)
	switch {
	case err != nil:
		httpError(w, err)
		return
	case special: // whose size says nothing either
		streamUnsized(w, inroot.ReadAs{File: f, As: c.as})
		return
	case info.Size == 0:
		streamUnsized(w, f)
		return
	}
	http.ServeContent(w, r, "", info.Modified, f)
}

// openFile opens a regular file for reading. Nothing else is served: a fifo or
// a device may never end.
func (c *caller) openFile(name string) (*os.File, inroot.Info, error) {
	name, err := c.path(name)
	if err != nil {
		return nil, inroot.Info{}, err
	}
	var f *os.File
	err = c.as.Do(func() (err error) {
		f, err = c.root.Open(name, os.O_RDONLY, 0)
		return err
	})
	if errors.Is(err, syscall.ENXIO) {
		return nil, inroot.Info{}, sandbox.Invalidf("path", "%q is not a regular file", clip(name))
	}
	if err != nil {
		return nil, inroot.Info{}, err
	}
	info, err := inroot.StatFile(f)
	if err == nil && !info.Mode.IsRegular() {
		err = sandbox.Invalidf("path", "%q is not a regular file", clip(name))
	}
	if err != nil {
		f.Close()
		return nil, inroot.Info{}, err
	}
	return f, info, nil
}

// streamUnsized serves a file whose size says nothing, as those of /proc. One
// that is really empty says so, because clients look for it.
func streamUnsized(w http.ResponseWriter, f io.Reader) {
	head := make([]byte, 4<<10)
	n, err := io.ReadFull(f, head)
	if n == 0 && err != nil && err != io.EOF {
		httpError(w, err)
		return
	}
	if n == 0 {
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusOK)
		return
	}
	// A failure from here on can only be told by ending the connection early.
	if _, err := io.Copy(w, io.MultiReader(bytes.NewReader(head[:n]), f)); err != nil {
		panic(http.ErrAbortHandler)
	}
}
