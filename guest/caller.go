//go:build linux

package guest

import (
	"io"
	"net/http"

	"aether/internal/host/inroot"
)

// caller is on whose behalf something is done in the sandbox.
type caller struct {
	account
	root *inroot.Root
	as   inroot.Identity
	// over is the sandbox's root, who makes directories for those that may not; nil unless
	// the request asks for it.
	over *inroot.Identity
	settings
}

// caller finds the user that a request names, by name or by its header. It is done when
// the call is.
func (s *Service) caller(header http.Header, name string) (*caller, error) {
	c := &caller{settings: s.current()}
	var err error
	if c.env, err = envOf(header, c.env); err != nil {
		return nil, err
	}
	if name == "" {
		name, _, _ = (&http.Request{Header: header}).BasicAuth()
	}
	if name == "" {
		name = c.user
	}
	if c.root, err = s.openRoot(); err != nil {
		return nil, err
	}
	passwd, group := userFile(c.root, "/etc/passwd"), userFile(c.root, "/etc/group")
	if c.account, err = findAccount(passwd, group, name); err == nil {
		c.as.UID, c.as.GID, err = s.backend.HostID(c.uid, c.gid)
	}
	if err == nil && header.Get(parentsHeader) != "" {
		// A sandbox with a single user has no other to make something for it.
		if uid, gid, none := s.backend.HostID(0, 0); none == nil {
			c.over = &inroot.Identity{UID: uid, GID: gid}
		}
	}
	if err != nil {
		c.done()
		return nil, err
	}
	return c, nil
}

// done ends the call.
func (c *caller) done() { c.root.Close() }

// userFile reads a file that may be missing, huge or not a file at all; none of
// which is more than a sandbox without named users.
func userFile(root *inroot.Root, name string) []byte {
	f, err := root.Open(name, 0, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := inroot.StatFile(f)
	if err != nil || !info.Mode.IsRegular() {
		return nil
	}
	// It is read with the rights of this program, which only stored files do not mind.
	if special, err := inroot.Special(f); err != nil || special {
		return nil
	}
	data := make([]byte, min(info.Size, maxUserFile))
	n, err := io.ReadFull(f, data)
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil
	}
	return data[:n]
}

// path makes a path of a request absolute.
func (c *caller) path(name string) (string, error) { return c.homePath(name, c.workDir) }
