//go:build linux

package guest

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path"
	"syscall"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"aether/guest/wire/filesystem/filesystemconnect"
	"aether/internal/host/inroot"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

// maxEntries and maxListing bound one listing, and with it the memory of an answer. A
// client takes no longer one.
const (
	maxEntries = 100_000
	maxListing = maxMessage - 1<<10
)

// files serves the Filesystem calls.
type files struct{ *Service }

var _ filesystemconnect.FilesystemHandler = files{}

// at finds the caller of a request and makes its path absolute.
func (s files) at(header http.Header, name string) (*describer, string, error) {
	c, err := s.caller(header, "")
	if err != nil {
		return nil, "", err
	}
	if name, err = c.path(name); err != nil {
		c.done()
		return nil, "", err
	}
	return s.describer(c), name, nil
}

func (s files) Stat(_ context.Context, req *connect.Request[pb.StatRequest]) (*connect.Response[pb.StatResponse], error) {
	d, name, err := s.at(req.Header(), req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	defer d.done()
	res := &pb.StatResponse{}
	err = d.as.Do(func() (err error) {
		res.Entry, err = d.lookup(name)
		return err
	})
	return connect.NewResponse(res), err
}

func (s files) MakeDir(_ context.Context, req *connect.Request[pb.MakeDirRequest]) (*connect.Response[pb.MakeDirResponse], error) {
	d, name, err := s.at(req.Header(), req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	defer d.done()
	res := &pb.MakeDirResponse{}
	if err := d.makeDir(name); err != nil {
		return nil, err
	}
	err = d.as.Do(func() (err error) {
		res.Entry, err = d.lookup(name)
		return err
	})
	return connect.NewResponse(res), err
}

// makeDir makes the parents first, so that of two callers only one has made the
// directory itself.
func (d *describer) makeDir(name string) error {
	err := d.as.Do(func() error {
		if info, err := d.root.Stat(name); err == nil {
			return exists(name, info)
		}
		return nil
	})
	if err == nil {
		err = d.makeParents(path.Dir(name))
	}
	if err != nil {
		return err
	}
	err = d.as.Do(func() error {
		p, err := d.root.Place(name)
		if err != nil {
			return err
		}
		defer p.Close()
		return p.Mkdir(newDir)
	})
	if d.over != nil && errors.Is(err, syscall.EACCES) {
		return d.root.MkdirFor(name, newDir, *d.over, d.as)
	}
	return err
}

func exists(name string, info inroot.Info) error {
	if info.Mode.IsDir() {
		return &sandbox.Error{Class: sandbox.Conflict, Field: "path", Reason: clip(name) + " exists already", Err: syscall.EEXIST}
	}
	return sandbox.Invalidf("path", "%q exists and is not a directory", clip(name))
}

func (s files) Move(_ context.Context, req *connect.Request[pb.MoveRequest]) (*connect.Response[pb.MoveResponse], error) {
	d, from, err := s.at(req.Header(), req.Msg.GetSource())
	if err != nil {
		return nil, err
	}
	defer d.done()
	to, err := d.homePath(req.Msg.GetDestination(), d.workDir)
	if err != nil {
		return nil, err
	}
	res := &pb.MoveResponse{}
	err = d.as.Do(func() (err error) {
		if err := d.move(from, to); err != nil {
			return err
		}
		res.Entry, err = d.lookup(to)
		return err
	})
	return connect.NewResponse(res), err
}

func (d *describer) move(from, to string) error {
	source, err := d.root.Place(from)
	if err != nil {
		return err
	}
	defer source.Close()
	if _, err := source.Lstat(); err != nil {
		return err // before directories are made for nothing
	}
	if err := d.root.MkdirAll(path.Dir(to), newDir); err != nil {
		return err
	}
	target, err := d.root.Place(to)
	if err != nil {
		return err
	}
	defer target.Close()
	return source.Rename(target)
}

func (s files) ListDir(_ context.Context, req *connect.Request[pb.ListDirRequest]) (*connect.Response[pb.ListDirResponse], error) {
	d, name, err := s.at(req.Header(), req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	defer d.done()
	res, size := &pb.ListDirResponse{}, 0
	err = d.as.Do(func() error {
		return d.root.Walk(name, max(1, int(req.Msg.GetDepth())), maxEntries, func(rel string, f *os.File) error {
			e, err := d.entry(path.Join(name, rel), f)
			if size += listedSize(e); size > maxListing {
				return inroot.ErrTooManyEntries
			}
			res.Entries = append(res.Entries, e)
			return err
		})
	})
	if errors.Is(err, inroot.ErrTooManyEntries) {
		err = &sandbox.Error{Class: sandbox.Exhausted, Field: "path", Reason: "more than can be listed at once", Remedy: "list a directory further down", Err: err}
	}
	return connect.NewResponse(res), err
}

// listedSize is what a message takes within another.
func listedSize(m proto.Message) int {
	return protowire.SizeTag(1) + protowire.SizeBytes(proto.Size(m))
}

func (s files) Remove(ctx context.Context, req *connect.Request[pb.RemoveRequest]) (*connect.Response[pb.RemoveResponse], error) {
	d, name, err := s.at(req.Header(), req.Msg.GetPath())
	if err != nil {
		return nil, err
	}
	defer d.done()
	err = d.as.Do(func() error { return d.root.RemoveAll(ctx, name) })
	return connect.NewResponse(&pb.RemoveResponse{}), err
}
