package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aether/image"
	"aether/sandbox"
)

// places are the directories that every root must have.
var places = []string{"dev", "proc", "tmp"}

// Bare is a layer with nothing but places to mount on.
type Bare string

// MakeBare makes the layer in dir, or uses the one that is there.
func MakeBare(dir string) (Bare, error) {
	for _, place := range places {
		if err := os.MkdirAll(filepath.Join(dir, place), 0o755); err != nil {
			return "", err
		}
	}
	if err := os.Chmod(filepath.Join(dir, "tmp"), fs.ModeSticky|0o777); err != nil {
		return "", err
	}
	return Bare(dir), nil
}

// Layers gives all layers of a root, lowest first. Errors: Invalid (field
// "image") where something else than a directory stands in the place of a mount:
// a link there would lead the mount astray.
func (b Bare) Layers(root image.Root) ([]string, error) {
	layers := append([]string{string(b)}, root.Layers...)
	targets := append([]string(nil), places...)
	for _, bind := range root.Binds {
		targets = append(targets, strings.TrimPrefix(bind.Target, "/"))
	}
	for _, target := range targets {
		if err := checkPlace(layers, target); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

func checkPlace(layers []string, target string) error {
	for i := len(layers) - 1; i >= 0; i-- {
		info, err := os.Lstat(filepath.Join(layers[i], target))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("overlay: %w", err)
		case !info.IsDir():
			return sandbox.Invalidf("image", "/%s is not a directory in it", target)
		}
		return nil
	}
	return sandbox.Invalidf("image", "it has no /%s", target)
}
