package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"aether/sandbox"
)

const (
	recordName   = "snapshot.json"
	draftName    = "snapshot.draft"
	manifestName = "manifest"
	blobsName    = "blobs"

	recordFormat = 1
	maxRecord    = 8 << 20
)

// Record is what a snapshot says of itself.
type Record struct {
	Format int `json:"format"`
	// Image is what the sandbox was made of, as it was asked for, and Digest its
	// content: empty for a directory, whose content may change.
	Image  string `json:"image"`
	Digest string `json:"digest,omitempty"`
	// Command holds the defaults of the sandbox's commands.
	Command sandbox.CommandDefaults `json:"command,omitzero"`
	// Authority is the key of the authority that the sandbox believes its gateway by.
	Authority []byte `json:"authority,omitempty"`
	// Manifest is the digest of the list of entries, of which there are so many.
	Manifest string    `json:"manifest"`
	Entries  int       `json:"entries"`
	Created  time.Time `json:"created"`
	// Attached are the digests of contents that are no files of the sandbox, by
	// their names.
	Attached map[string]string `json:"attached,omitempty"`
	// Composed are those of them, by their digests, that are not kept as they are but as
	// parts of contents.
	Composed map[string]composition `json:"composed,omitempty"`
}

// Read gives the record of the snapshot in dir. Errors: NotFound if there is none,
// Invalid for one that is damaged.
func Read(dir string) (Record, error) {
	file, err := openPlain(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return Record{}, &sandbox.Error{Class: sandbox.NotFound, Op: "snapshot: read", Field: "snapshot", Reason: "there is none in " + dir, Err: err}
	}
	if err != nil {
		return Record{}, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxRecord))
	if err != nil {
		return Record{}, fmt.Errorf("snapshot: read: %w", err)
	}
	return parseRecord(data)
}

func parseRecord(data []byte) (rec Record, err error) {
	if err := strict(data, &rec); err != nil {
		return Record{}, broken(err, "%s is damaged", recordName)
	}
	if rec.Format != recordFormat || !isDigest(rec.Manifest) || rec.Entries < 0 {
		return Record{}, broken(nil, "%s is not of format %d, or damaged", recordName, recordFormat)
	}
	if err := checkAttached(rec.Attached); err != nil {
		return Record{}, err
	}
	if err := checkComposed(rec.Composed); err != nil {
		return Record{}, err
	}
	spec := sandbox.Spec{Image: rec.Image, Command: rec.Command}
	if err := spec.Validate(); err != nil {
		return Record{}, broken(err, "%s is damaged", recordName)
	}
	return rec, nil
}

// write makes dir a snapshot, in one step that lasts. All else in it is on disk,
// but for the names of its files.
func (r Record) write(dir string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	draft := filepath.Join(dir, draftName)
	if err := os.WriteFile(draft, append(data, '\n'), 0o600); err != nil {
		return err
	}
	for _, path := range []string{draft, dir} {
		if err := syncPath(path); err != nil {
			return err
		}
	}
	if err := os.Rename(draft, filepath.Join(dir, recordName)); err != nil {
		return err
	}
	return syncPath(dir)
}

// syncPath makes a file or the names in a directory durable.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// openPlain opens a regular file: nothing that a damaged directory has in its
// place is followed or waited for.
func openPlain(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, broken(err, "%s is a link", filepath.Base(name))
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = broken(nil, "%s is not a file", filepath.Base(name))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Written are the paths of everything that the sandbox of a snapshot had written or
// removed, from the root. Errors: Invalid for a snapshot that is damaged.
func Written(dir string) (map[string]bool, error) {
	file, err := openPlain(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, broken(err, "the manifest is missing")
	}
	defer file.Close()
	list, err := decode(file)
	if err != nil {
		return nil, err
	}
	paths := make(map[string]bool, len(list))
	for i := range list {
		paths["/"+string(list[i].Path)] = true
	}
	return paths, nil
}
