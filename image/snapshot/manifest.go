package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"aether/internal/bytestring"
	"aether/sandbox"
)

// kinds of entries.
const (
	kindDir      = "dir"
	kindFile     = "file"
	kindSymlink  = "symlink"
	kindFifo     = "fifo"
	kindSocket   = "socket"
	kindWhiteout = "whiteout"
)

// text is a name or value of any bytes.
type text = bytestring.String

// entry is one thing that a sandbox wrote.
type entry struct {
	// Path leads from the root, which itself is ".".
	Path text   `json:"path"`
	Kind string `json:"kind"`
	// Mode holds permissions and the sticky bit. Ids are those of the sandbox.
	Mode uint32 `json:"mode,omitempty"`
	UID  uint32 `json:"uid,omitempty"`
	GID  uint32 `json:"gid,omitempty"`
	// Seconds and Nanos since 1970 are when it was modified.
	Seconds int64 `json:"seconds,omitempty"`
	Nanos   int64 `json:"nanos,omitempty"`
	// Attrs are those in user.*.
	Attrs []attr `json:"attrs,omitempty"`
	// Opaque directories hide what the image has in them.
	Opaque bool `json:"opaque,omitempty"`
	// Target is where a symbolic link leads.
	Target text `json:"target,omitempty"`
	// Same is a number that the names of one file have in common, or 0.
	Same int64 `json:"same,omitempty"`

	// Size is that of a file, Blob its content; none for an empty file. Where it
	// has holes, Extents say which bytes the content is.
	Size    int64    `json:"size,omitempty"`
	Blob    string   `json:"blob,omitempty"`
	Extents []extent `json:"extents,omitempty"`
}

type attr struct {
	Name  text `json:"name"`
	Value text `json:"value"`
}

// extent is a run of bytes: offset and length.
type extent [2]int64

const (
	manifestFormat = 1
	// maxManifest and maxLine bound what a hostile sandbox or manifest makes this
	// program remember.
	maxManifest = 256 << 20
	maxLine     = 16 << 20
)

// header is the first line of a manifest.
type header struct {
	Format  int `json:"format"`
	Entries int `json:"entries"`
}

var errManifestSize = &sandbox.Error{Class: sandbox.Exhausted, Op: "snapshot: write the manifest",
	Reason: fmt.Sprintf("the list of what the sandbox wrote is over %d MiB", maxManifest>>20), Remedy: "remove files first"}

// encode writes the entries, which are sorted.
func encode(w io.Writer, list []entry) error {
	out := bufio.NewWriter(w)
	left := maxManifest
	line := func(v any) error {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if left -= len(data) + 1; left < 0 || len(data) >= maxLine {
			return errManifestSize
		}
		_, err = out.Write(append(data, '\n'))
		return err
	}
	if err := line(header{manifestFormat, len(list)}); err != nil {
		return err
	}
	for i := range list {
		if err := line(&list[i]); err != nil {
			return err
		}
	}
	return out.Flush()
}

// order sorts entries such that a directory comes before what is in it.
func order(list []entry) {
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(string(a.Path), string(b.Path)) })
}

// decode reads a manifest and checks everything that unpacking relies on. Errors:
// Invalid, for a manifest that this package did not write.
func decode(r io.Reader) ([]entry, error) {
	lines := bufio.NewScanner(io.LimitReader(r, maxManifest+1))
	lines.Buffer(nil, maxLine)
	if !lines.Scan() {
		return nil, broken(lines.Err(), "it has no first line")
	}
	var head header
	if err := strict(lines.Bytes(), &head); err != nil || head.Format != manifestFormat {
		return nil, broken(err, "its format is not %d", manifestFormat)
	}
	check := newChecker()
	var list []entry
	for lines.Scan() {
		var e entry
		if err := strict(lines.Bytes(), &e); err != nil {
			return nil, broken(err, "line %d is not an entry", len(list)+2)
		}
		if err := check.entry(&e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	if err := lines.Err(); err != nil || len(list) != head.Entries {
		return nil, broken(err, "it has %d entries, not %d", len(list), head.Entries)
	}
	return list, nil
}

func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("something follows at %d", d.InputOffset())
	}
	return nil
}

// broken is a snapshot that cannot be used.
func broken(err error, format string, args ...any) error {
	return &sandbox.Error{Class: sandbox.Invalid, Op: "snapshot: read the manifest", Field: "snapshot",
		Reason: fmt.Sprintf(format, args...), Remedy: "take the snapshot again", Err: err}
}
