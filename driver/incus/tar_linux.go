package incus

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"runtime"

	"aether/image/flatten"
)

// label is what is told of an image beside its files.
type label struct{ name, source string }

// machines are the daemon's names of architectures.
var machines = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// metadata describes an image, in YAML. It is a part of the image, so that images
// with different names never are the same to the daemon.
func (l label) metadata() string {
	return fmt.Sprintf("architecture: %s\ncreation_date: 1\nproperties:\n  description: aether\n  %s: %q\n  %s: %q\n",
		machines[runtime.GOARCH], nameProperty, l.name, sourceProperty, l.source)
}

// rootName is where the daemon looks for the files.
const rootName = "rootfs"

// pack writes the files that layers show as an image of Incus: a tar of a
// description and the files.
func pack(ctx context.Context, l label, layers []string, to io.Writer) error {
	out := tar.NewWriter(to)
	if err := l.begin(out); err != nil {
		return err
	}
	return flatten.Pack(ctx, layers, out, rootName)
}

func (l label) begin(out *tar.Writer) error {
	text := l.metadata()
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "metadata.yaml", Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	return out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: rootName + "/", Mode: 0o755})
}
