package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"aether/internal/host/storedir"
	"aether/sandbox"
)

// Commit makes the snapshot in dir, which exists and is empty, and ends the
// draft. from is the layer that the sandbox was restored from, or nil. The record
// says where the sandbox came from; the rest of it is filled in. A failure leaves
// dir empty. Errors: Conflict for a dir that is not.
func (d *Draft) Commit(ctx context.Context, dir string, from *Layer, rec Record) error {
	err := d.commit(ctx, dir, from, rec)
	if err != nil {
		err = fmt.Errorf("snapshot: %w", err)
	}
	return errors.Join(err, d.Discard())
}

func (d *Draft) commit(ctx context.Context, dir string, from *Layer, rec Record) error {
	if err := mustBeEmpty(dir); err != nil {
		return err
	}
	if err := d.nameBlobs(ctx); err != nil {
		return err
	}
	if err := d.compose(ctx); err != nil {
		return err
	}
	if err := d.join(from); err != nil {
		return err
	}
	rec.Format, rec.Entries, rec.Created, rec.Attached, rec.Composed = recordFormat, len(d.list), time.Now().UTC(), d.attachedDigests(), d.composed
	var err error
	if rec.Manifest, err = d.writeManifest(); err != nil {
		return err
	}
	if err := d.publish(ctx, dir, from, rec); err != nil {
		return errors.Join(err, emptyDir(dir))
	}
	return nil
}

func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return &sandbox.Error{Class: sandbox.Conflict, Field: "dir", Reason: dir + " is not empty"}
	}
	return nil
}

// emptyDir takes back what was put into the directory of a snapshot.
func emptyDir(dir string) (err error) {
	for _, name := range []string{recordName, draftName, manifestName, blobsName} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, name)))
	}
	return err
}

// nameBlobs finds out the digests of all contents.
func (d *Draft) nameBlobs(ctx context.Context) (err error) {
	for i := range d.contents {
		c := &d.contents[i]
		if c.data != nil {
			sum := sha256.Sum256(c.data)
			c.digest = hex.EncodeToString(sum[:])
		} else if c.digest, err = digestOf(ctx, d.copyPath(i)); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	for i, number := range d.copies {
		if number >= 0 {
			d.list[i].Blob = d.contents[number].digest
		}
	}
	return nil
}

func digestOf(ctx context.Context, name string) (string, error) {
	file, err := openPlain(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	return digestFile(ctx, file)
}

func digestFile(ctx context.Context, file *os.File) (string, error) {
	hash := sha256.New()
	if _, err := io.Copy(hash, contextReader{ctx, file}); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// join brings the entries in order, after those of the layer below if there is one.
func (d *Draft) join(from *Layer) error {
	order(d.list)
	if from == nil {
		return nil
	}
	lower, err := from.entries()
	if err != nil {
		return err
	}
	d.list = merge(lower, d.list)
	return nil
}

// writeManifest makes the manifest one more content, and gives its digest.
func (d *Draft) writeManifest() (string, error) {
	file, err := os.OpenFile(d.copyPath(len(d.contents)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	if err := errors.Join(encode(io.MultiWriter(file, hash), d.list), file.Close()); err != nil {
		return "", err
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	d.contents = append(d.contents, content{digest: digest})
	return digest, nil
}

// publish puts everything in its place. Nobody may collect garbage meanwhile.
func (d *Draft) publish(ctx context.Context, dir string, from *Layer, rec Record) error {
	lock, err := d.store.lockFor(ctx, "blobs")
	if err != nil {
		return err
	}
	err = d.link(ctx, dir, from, rec)
	if err := errors.Join(err, lock.Release()); err != nil {
		return err
	}
	if err := syncPath(filepath.Join(dir, blobsName)); err != nil {
		return err
	}
	return rec.write(dir)
}

// link names the new contents in the store, and all contents in the snapshot.
func (d *Draft) link(ctx context.Context, dir string, from *Layer, rec Record) error {
	if err := d.adopt(); err != nil {
		return err
	}
	if err := place(ctx, filepath.Join(dir, manifestName), d.store.blob(rec.Manifest)); err != nil {
		return err
	}
	var places []string
	places = append(places, d.store.path("blobs"))
	if from != nil {
		places = append(places, filepath.Join(from.dir, blobsName))
	}
	if err := placeBlobs(ctx, filepath.Join(dir, blobsName), d.list, places...); err != nil {
		return err
	}
	return d.placeAttached(ctx, filepath.Join(dir, blobsName), rec)
}

// adopt gives the store all contents that it lacks. A name in the store promises
// whole content, also after a loss of power.
func (d *Draft) adopt() error {
	lacking, err := d.lacking()
	if err != nil {
		return err
	}
	if err := d.sync(lacking); err != nil {
		return err
	}
	for digest, i := range lacking {
		if err := os.Link(d.copyPath(i), d.store.blob(digest)); err != nil {
			return err
		}
	}
	return nil
}

// lacking are the contents that the store has not, by digest, all of them now in
// the workplace.
func (d *Draft) lacking() (map[string]int, error) {
	lacking := map[string]int{}
	for i, c := range d.contents {
		if _, ok := lacking[c.digest]; ok {
			continue
		}
		if c.composed {
			continue
		}
		there, err := exists(d.store.blob(c.digest))
		if err != nil {
			return nil, err
		}
		if there {
			continue
		}
		if c.data != nil {
			if err := os.WriteFile(d.copyPath(i), c.data, 0o400); err != nil {
				return nil, err
			}
		}
		lacking[c.digest] = i
	}
	return lacking, nil
}

// oneByOne is how many files are made durable one after another. More take less
// time together with whatever else is to be written on their file system.
const oneByOne = 16

func (d *Draft) sync(lacking map[string]int) error {
	if len(lacking) > oneByOne {
		return storedir.Sync(d.work.dir)
	}
	for _, i := range lacking {
		if err := syncPath(d.copyPath(i)); err != nil {
			return err
		}
	}
	return nil
}

// placeBlobs fills a new directory with the contents of entries, each from the
// first place that has it.
func placeBlobs(ctx context.Context, dir string, list []entry, places ...string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	done := map[string]bool{"": true}
	for i := range list {
		digest := list[i].Blob
		if done[digest] {
			continue
		}
		done[digest] = true
		sources := make([]string, len(places))
		for i, from := range places {
			sources[i] = filepath.Join(from, digest)
		}
		if err := place(ctx, filepath.Join(dir, digest), sources...); err != nil {
			return err
		}
	}
	return nil
}

// place links a file, or copies it where a link cannot be.
func place(ctx context.Context, to string, sources ...string) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, from := range sources {
		if err = os.Link(from, to); err == nil {
			return nil
		}
		if errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.EMLINK) || errors.Is(err, fs.ErrPermission) {
			return copyFile(ctx, to, from)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return broken(err, "the content %s is missing", filepath.Base(to))
}

func copyFile(ctx context.Context, to, from string) error {
	source, err := openPlain(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, contextReader{ctx, source})
	return errors.Join(err, target.Sync(), target.Close())
}
