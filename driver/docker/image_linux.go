package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"aether/image"
	"aether/image/flatten"
	"aether/internal/host/storedir"
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
	name, err := flatten.Name(ctx, fmt.Sprintf("docker %d as %d", formatVersion, os.Geteuid()), root, layers)
	if err != nil {
		return "", err
	}
	ref := repository + ":" + name
	if known, err := e.knows(ctx, ref); known || err != nil {
		return ref, err
	}
	// One at a time: of two images with the same name the daemon keeps both.
	lock, err := storedir.Acquire(ctx, filepath.Join(e.RunDir, "import"))
	if err != nil {
		return "", err
	}
	err = e.importOnce(ctx, ref, flatten.Source(root), layers)
	return ref, errors.Join(err, lock.Release())
}

func (e *engine) knows(ctx context.Context, ref string) (bool, error) {
	err := e.api.get(ctx, "/images/"+ref+"/json", nil, nil)
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
	pack := func(to io.Writer) error { return flatten.Pack(ctx, layers, tar.NewWriter(to), "") }
	return flatten.Send(pack, func(files io.Reader) error {
		query := url.Values{"fromSrc": {"-"}, "repo": {ref}, "changes": {"LABEL " + sourceLabel + "=" + source}}
		answer, err := e.api.send(ctx, http.MethodPost, "/images/create", query, "application/x-tar", files)
		if err != nil {
			return err
		}
		return errors.Join(importError(answer), answer.Close())
	})
}

// importError reads what the daemon says of an import to its end.
func importError(answer io.Reader) error {
	for decoder := json.NewDecoder(ending(answer)); ; {
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
	var list []struct{ RepoTags []string }
	err := e.api.get(ctx, "/images/json", labelled(sourceLabel+"="+source), &list)
	if err != nil {
		return err
	}
	for _, old := range list {
		for _, name := range old.RepoTags {
			if name == ref {
				continue
			}
			if failed := e.api.ask(ctx, http.MethodDelete, "/images/"+name, nil, nil, nil); !gone(failed) && !conflicts(failed) {
				err = errors.Join(err, failed)
			}
		}
	}
	return err
}
