package flatten

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"

	"aether/image"
	"aether/internal/host/filetree"
	"aether/sandbox"
)

// Name names what a daemon is given by its content: the root's digest, or, for a
// directory that may change, the metadata of every file that layers show. As says
// what else it depends on, as the form in which it is given.
func Name(ctx context.Context, as string, root image.Root, layers []string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s: %q\n", as, root.Digest)
	if root.Digest == "" {
		if err := walk(ctx, layers, inspect(sum)); err != nil {
			return "", err
		}
	}
	return short(sum), nil
}

func inspect(sum hash.Hash) visitor {
	return func(name string, info filetree.Info, _ *filetree.Dir) error {
		fmt.Fprintf(sum, "%q %o %d %d %d %d %d %d %d\n", name, info.Mode, info.UID, info.GID, info.Size, info.Dev, info.Ino, info.Modified, info.Changed)
		return nil
	}
}

// Source names what a root is made from, whatever its content is now: the host, a
// directory, or an image that never changes.
func Source(root image.Root) string {
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
