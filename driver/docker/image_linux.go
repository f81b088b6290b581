package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	"github.com/moby/moby/client"

	"aether/host/filetree"
	"aether/host/storedir"
	"aether/image"
	"aether/sandbox"
)

const (
	// repository names all images that the daemon was given by this driver.
	repository = "aether"
	// sourceLabel says which root an image was made from, so that the one before
	// it is found.
	sourceLabel = "aether.source"
	// formatVersion changes when the same root makes another image.
	formatVersion = 1
)

// ensureImage gives the daemon the files of a root, unless it has them, and
// answers by which name it knows them.
func (e *engine) ensureImage(ctx context.Context, root image.Root, layers []string) (string, error) {
	ref, err := imageName(ctx, root, layers)
	if err != nil {
		return "", err
	}
	if known, err := e.knows(ctx, ref); known || err != nil {
		return ref, err
	}
	// One at a time: of two images with the same name the daemon keeps both.
	lock, err := storedir.Acquire(ctx, filepath.Join(e.runDir, "import"))
	if err != nil {
		return "", err
	}
	err = e.importOnce(ctx, ref, sourceOf(root), layers)
	return ref, errors.Join(err, lock.Release())
}

func (e *engine) knows(ctx context.Context, ref string) (bool, error) {
	_, err := e.api.ImageInspect(ctx, ref)
	if gone(err) {
		return false, nil
	}
	return err == nil, err
}

func (e *engine) importOnce(ctx context.Context, ref, source string, layers []string) error {
	if known, err := e.knows(ctx, ref); known || err != nil {
		return err // another program was quicker
	}
	if err := e.send(ctx, ref, source, layers); err != nil {
		return fmt.Errorf("give the daemon the image: %w", err)
	}
	return e.forget(ctx, ref, source)
}

// send streams the files to the daemon.
func (e *engine) send(ctx context.Context, ref, source string, layers []string) error {
	files, into := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(ctx, layers, into)
		into.CloseWithError(err)
		packed <- err
	}()
	answer, err := e.api.ImageImport(ctx, client.ImageImportSource{Source: files, SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: []string{"LABEL " + sourceLabel + "=" + source}})
	if err == nil {
		err = errors.Join(importError(answer), answer.Close())
	}
	files.CloseWithError(err) // a packer that nobody reads from ends
	failed := <-packed
	if err != nil && (failed == nil || errors.Is(failed, io.ErrClosedPipe)) {
		return err
	}
	return failed
}

// importError reads what the daemon says of an import to its end.
func importError(answer io.Reader) error {
	for decoder := json.NewDecoder(answer); ; {
		var message struct{ Error string }
		err := decoder.Decode(&message)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case message.Error != "":
			return errors.New(message.Error)
		}
	}
}

// forget removes the images that the same source made before it changed. One
// that a container still uses goes the next time.
func (e *engine) forget(ctx context.Context, ref, source string) error {
	list, err := e.api.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("label", sourceLabel+"="+source)})
	if err != nil {
		return err
	}
	for _, old := range list.Items {
		for _, name := range old.RepoTags {
			if name == ref {
				continue
			}
			if _, failed := e.api.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true}); !gone(failed) && !conflicts(failed) {
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}

// imageName names an image by its content: the root's digest, or, for a directory
// that may change, the metadata of every file.
func imageName(ctx context.Context, root image.Root, layers []string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "docker %d as %d: %q\n", formatVersion, os.Geteuid(), root.Digest)
	if root.Digest == "" {
		if err := walk(ctx, layers, inspect(sum)); err != nil {
			return "", err
		}
	}
	return repository + ":" + short(sum), nil
}

func inspect(sum hash.Hash) visitor {
	return func(name string, info filetree.Info, _ *filetree.Dir) error {
		fmt.Fprintf(sum, "%q %o %d %d %d %d %d %d %d\n", name, info.Mode, info.UID, info.GID, info.Size, info.Dev, info.Ino, info.Modified, info.Changed)
		return nil
	}
}

// sourceOf names what a root is made from, whatever its content is now: the host,
// a directory, or an image that never changes.
func sourceOf(root image.Root) string {
	sum := sha256.New()
	switch {
	case len(root.Binds) > 0:
		fmt.Fprint(sum, sandbox.HostImage)
	case root.Digest != "":
		fmt.Fprint(sum, root.Digest)
	default:
		fmt.Fprintf(sum, "%q", root.Layers)
	}
	return short(sum)
}

func short(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:16]) }
