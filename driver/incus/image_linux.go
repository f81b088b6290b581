package incus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"sync"

	"aether/image"
	"aether/image/flatten"
	"aether/internal/host/storedir"
)

const (
	// nameProperty says of an image what content it has, sourceProperty which root
	// it was made from, so that the one before it is found.
	nameProperty   = "aether.image"
	sourceProperty = "aether.source"
	// formatVersion changes when the same root makes another image.
	formatVersion = 1
)

// kept is an image that the daemon has.
type kept struct {
	Fingerprint string            `json:"fingerprint"`
	Properties  map[string]string `json:"properties"`
}

var fingerprint = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

func imagePath(id string) string { return "/1.0/images/" + id }

// imagesOf lists the daemon's images with a property.
func (c *client) imagesOf(ctx context.Context, property, value string) (found []kept, err error) {
	var all []kept
	if err := c.get(ctx, "/1.0/images?recursion=1", &all); err != nil {
		return nil, err
	}
	for _, k := range all {
		if k.Properties[property] == value && fingerprint().MatchString(k.Fingerprint) {
			found = append(found, k)
		}
	}
	return found, nil
}

// knows gives the fingerprint of an image, or nothing.
func (c *client) knows(ctx context.Context, name string) (string, error) {
	found, err := c.imagesOf(ctx, nameProperty, name)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return found[0].Fingerprint, nil
}

func (c *client) hasImage(ctx context.Context, id string) bool {
	var k kept
	return !gone(c.get(ctx, imagePath(id), &k))
}

// ensureImage gives the daemon the files of a root, unless it has them, and
// answers by which fingerprint it knows them.
func (e *engine) ensureImage(ctx context.Context, root image.Root) (string, error) {
	layers, err := e.Bare.Layers(root)
	if err != nil {
		return "", err
	}
	name, err := flatten.Name(ctx, fmt.Sprintf("incus %d", formatVersion), root, root.Layers)
	if err != nil {
		return "", err
	}
	if id, err := e.api.knows(ctx, name); id != "" || err != nil {
		return id, err
	}
	// One at a time: the others need not send it as well.
	lock, err := storedir.Acquire(ctx, filepath.Join(e.RunDir, "import"))
	if err != nil {
		return "", err
	}
	id, err := e.api.importOnce(ctx, label{name, flatten.Source(root)}, layers)
	return id, errors.Join(err, lock.Release())
}

// importOnce gives the daemon an image that another program may give it as well.
func (c *client) importOnce(ctx context.Context, l label, layers []string) (string, error) {
	if id, err := c.knows(ctx, l.name); id != "" || err != nil {
		return id, err
	}
	id, err := c.sendImage(ctx, l, layers)
	if err != nil {
		if known, _ := c.knows(ctx, l.name); known != "" {
			return known, nil
		}
		return "", fmt.Errorf("give the daemon the image: %w", err)
	}
	return id, c.forget(ctx, l)
}

// sendImage streams the files to the daemon.
func (c *client) sendImage(ctx context.Context, l label, layers []string) (id string, err error) {
	upload := func(files io.Reader) (err error) { id, err = c.upload(ctx, files); return err }
	err = flatten.Send(func(to io.Writer) error { return pack(ctx, l, layers, to) }, upload)
	return id, err
}

func (c *client) upload(ctx context.Context, files io.Reader) (string, error) {
	began, err := c.send(ctx, http.MethodPost, "/1.0/images", "application/octet-stream", files)
	if err != nil {
		return "", err
	}
	op, err := c.await(ctx, began)
	if err != nil {
		return "", err
	}
	var made kept
	if err := json.Unmarshal(op.Metadata, &made); err != nil || !fingerprint().MatchString(made.Fingerprint) {
		return "", nonsensef("the fingerprint %.80q of an image (%v)", made.Fingerprint, err)
	}
	return made.Fingerprint, nil
}

// forget removes the images that the same source made before it changed.
// Containers do not need theirs once they are made.
func (c *client) forget(ctx context.Context, l label) error {
	list, err := c.imagesOf(ctx, sourceProperty, l.source)
	for _, old := range list {
		if old.Properties[nameProperty] == l.name {
			continue
		}
		if failed := c.do(ctx, http.MethodDelete, imagePath(old.Fingerprint), nil); !gone(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
