package disk

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"aether/sandbox"
)

// write makes the disk in an empty file.
func write(ctx context.Context, file *os.File, t *tree) error {
	nodes := collect(t.root)
	if err := t.complete(ctx, nodes); err != nil {
		return err
	}
	p, err := layOut(nodes)
	if err != nil {
		return err
	}
	w := &writer{ctx: ctx, plan: p, parents: parentsOf(nodes)}
	if err := w.writeInodes(file); err != nil {
		return full(err)
	}
	if err := w.writeContents(file); err != nil {
		return full(err)
	}
	return full(file.Truncate(p.blocks * blockSize))
}

type writer struct {
	ctx     context.Context
	plan    *plan
	parents map[*node]*node
}

// parentsOf finds the directory of each directory; the root is its own.
func parentsOf(nodes []*node) map[*node]*node {
	parents := map[*node]*node{nodes[0]: nodes[0]}
	for _, n := range nodes {
		for _, child := range n.children {
			if child.children != nil {
				parents[child] = n
			}
		}
	}
	return parents
}

// writeInodes writes everything up to the first block of contents.
func (w *writer) writeInodes(file *os.File) error {
	out := &padded{Writer: bufio.NewWriterSize(file, 1<<20)}
	out.padTo(superStart)
	out.put(w.plan.super())
	for i, n := range w.plan.nodes {
		out.padTo(n.offset)
		out.put(n.inode(uint32(i + 1)))
		if n.inline {
			content, err := w.small(n)
			if err != nil {
				return err
			}
			out.put(content)
		}
	}
	out.padTo(w.plan.meta * blockSize)
	return out.Flush()
}

// padded counts what it writes. Errors of a bufio.Writer stay until Flush.
type padded struct {
	*bufio.Writer
	at int64
}

func (p *padded) put(b []byte) {
	n, _ := p.Write(b)
	p.at += int64(n)
}

func (p *padded) padTo(offset int64) { p.put(make([]byte, max(0, offset-p.at))) }

// small gives a content that fits behind an inode.
func (w *writer) small(n *node) ([]byte, error) {
	switch {
	case n.children != nil:
		return dirContent(n, w.parents[n]), nil
	case n.IsSymlink():
		return []byte(n.target), nil
	}
	file, err := n.open(w.ctx)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content := make([]byte, n.Size)
	if _, err := io.ReadFull(file, content); err != nil {
		return nil, changed(n, err)
	}
	return content, nil
}

func (n *node) open(ctx context.Context) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := n.from.OpenFile(n.path)
	if err != nil {
		return nil, changed(n, err)
	}
	return file, nil
}

func (w *writer) writeContents(file *os.File) error {
	for _, n := range w.plan.nodes {
		if n.inline || !n.hasContent() {
			continue
		}
		if _, err := file.Seek(int64(n.block)*blockSize, io.SeekStart); err != nil {
			return err
		}
		if err := w.large(file, n); err != nil {
			return err
		}
	}
	return nil
}

// large writes a content at the file's offset. The kernel copies it where it
// can, and some file systems share the blocks.
func (w *writer) large(file *os.File, n *node) error {
	if !n.IsFile() {
		content, err := w.small(n)
		if err == nil {
			_, err = file.Write(content)
		}
		return err
	}
	source, err := n.open(w.ctx)
	if err != nil {
		return err
	}
	defer source.Close()
	count, err := io.Copy(file, io.LimitReader(source, n.Size))
	if err == nil && count < n.Size {
		err = changed(n, io.ErrUnexpectedEOF)
	}
	return err
}

// full tells a disk without room from a defect.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &sandbox.Error{Class: sandbox.Exhausted, Op: "disk", Reason: "no room for the disk of a machine",
			Remedy: "free space where images are kept", Err: err}
	}
	return err
}
