package tool

import (
	"context"
	"encoding/base64"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"aether/guest"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

const (
	maxEdited  = 8 << 20
	maxSkipped = 1 << 30
	maxListed  = 1000
)

type pathArgs struct {
	of
	Path string `json:"path"`
}

type readArgs struct {
	pathArgs
	Offset   int `json:"offset,omitempty" jsonschema:"byte to begin with"`
	MaxBytes int `json:"max_bytes,omitempty" jsonschema:"default 16384, at most 262144"`
}

type writeArgs struct {
	pathArgs
	Content string `json:"content" max:"6291456"`
	Base64  bool   `json:"base64,omitempty" jsonschema:"content is base64"`
}

type editArgs struct {
	pathArgs
	Old string `json:"old" max:"1048576" jsonschema:"exact text, once in the file"`
	New string `json:"new" max:"1048576"`
	All bool   `json:"all,omitempty" jsonschema:"replace every occurrence"`
}

type listFilesArgs struct {
	pathArgs
	Depth int `json:"depth,omitempty" jsonschema:"default 1"`
}

type moveArgs struct {
	of
	From string `json:"from"`
	To   string `json:"to"`
}

func fileTools() []*Tool {
	return []*Tool{
		define("file_read", Reads, "Read a file, or a part of it: next_offset is where the rest begins.", (*Session).readFile).inCompact(),
		define("file_write", Destroys, "Write a file whole, in one step. Makes missing directories.", (*Session).writeFile).inCompact().again(),
		define("file_edit", Writes, "Replace text in a file.", (*Session).editFile).inCompact(),
		define("file_list", Reads, "List a directory.", (*Session).listFiles),
		define("file_stat", Reads, "Describe a file, directory or link.", (*Session).statFile),
		define("file_search", Reads, "Find lines of files by regular expression (RE2), or files by name.", (*Session).searchFiles),
		define("file_move", Destroys, "Move or rename. Replaces a file at the target.", (*Session).moveFile),
		define("file_remove", Destroys, "Remove a file or a whole directory.", (*Session).removeFile),
		define("file_mkdir", Writes, "Make a directory and its parents.", (*Session).makeDirectory),
	}
}

// checkPath refuses what cannot be a path. Where it leads is the guest service's business,
// which lets none out of the sandbox.
func checkPath(field, name string) error {
	if name == "" || strings.ContainsRune(name, 0) {
		return sandbox.Invalidf(field, "it is empty, or has a zero byte")
	}
	return nil
}

// at has a client do something about a path.
func (s *Session) at(ctx context.Context, in pathArgs, do func(*guest.Client) error) error {
	if err := checkPath("path", in.Path); err != nil {
		return err
	}
	return s.inside(ctx, in.Sandbox, 0, func(client *guest.Client) error {
		return advise(do(client), []sandbox.Class{sandbox.NotFound}, "file_list", map[string]any{"sandbox": in.Sandbox, "path": path.Dir(path.Clean("/" + in.Path))})
	})
}

// FilePart is a file, or a part of it.
type FilePart struct {
	Path string `json:"path"`
	// Text is it; or Base64 is, where it is no UTF-8.
	Text   string `json:"text"`
	Base64 []byte `json:"base64,omitempty"`
	Offset int    `json:"offset,omitempty"`
	// Truncated says that there is more, from NextOffset on.
	Truncated  bool `json:"truncated,omitempty"`
	NextOffset int  `json:"next_offset,omitempty"`
}

func (s *Session) readFile(ctx context.Context, in readArgs) (part FilePart, err error) {
	w, err := newWindow(&in.Offset, in.MaxBytes)
	if err != nil {
		return part, err
	}
	if in.Offset > maxSkipped {
		return part, sandbox.Invalidf("offset", "%d is more than %d", in.Offset, maxSkipped)
	}
	err = s.at(ctx, in.pathArgs, func(client *guest.Client) error {
		contents, err := client.Read(ctx, in.Path)
		if err != nil {
			return err
		}
		defer contents.Close()
		part, err = readPart(contents, in.Path, in.Offset, w.most)
		return err
	})
	return part, err
}

func readPart(from io.Reader, name string, offset, most int) (FilePart, error) {
	part := FilePart{Path: name, Offset: offset}
	if n, err := io.CopyN(io.Discard, from, int64(offset)); err == io.EOF {
		return part, sandbox.Invalidf("offset", "%d is after the end: the file has %d bytes", offset, n)
	} else if err != nil {
		return part, err
	}
	text, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err != nil {
		return part, err
	}
	if len(text) > most {
		text, part.Truncated = text[:most], true
		if whole := wholeLetters(text); utf8.Valid(whole) && len(whole) > 0 {
			text = whole
		}
		part.NextOffset = offset + len(text)
	}
	if utf8.Valid(text) {
		part.Text = string(text)
	} else {
		part.Base64 = text
	}
	return part, nil
}

// Written is a file that was written.
type Written struct {
	Path  string `json:"path"`
	Bytes int    `json:"bytes"`
}

func (s *Session) writeFile(ctx context.Context, in writeArgs) (Written, error) {
	content := in.Content
	if in.Base64 {
		plain, err := base64.StdEncoding.DecodeString(content)
		if err != nil {
			return Written{}, sandbox.Invalidf("content", "it is not base64: %v", err)
		}
		content = string(plain)
	}
	err := s.at(ctx, in.pathArgs, func(client *guest.Client) error { return client.Write(ctx, in.Path, strings.NewReader(content)) })
	return Written{in.Path, len(content)}, err
}

// Edited is a file in which text was replaced.
type Edited struct {
	Path     string `json:"path"`
	Replaced int    `json:"replaced"`
}

func (s *Session) editFile(ctx context.Context, in editArgs) (done Edited, err error) {
	if in.Old == "" || in.Old == in.New {
		return done, sandbox.Invalidf("old", "it is empty, or the same as new")
	}
	err = s.at(ctx, in.pathArgs, func(client *guest.Client) error {
		text, err := readWhole(ctx, client, in.Path)
		if err != nil {
			return err
		}
		count := strings.Count(text, in.Old)
		again := Next{"file_read", map[string]any{"sandbox": in.Sandbox, "path": in.Path}}
		switch {
		case count == 0:
			return &advice{&sandbox.Error{Class: sandbox.Conflict, Field: "old", Reason: "the file does not have this text", Remedy: "read the file, and give text as it is there"}, again}
		case count > 1 && !in.All:
			return &advice{&sandbox.Error{Class: sandbox.Conflict, Field: "old", Reason: "the file has this text more than once", Remedy: "give more of the text around it, or set all"}, again}
		}
		done = Edited{in.Path, count}
		return client.Write(ctx, in.Path, strings.NewReader(strings.ReplaceAll(text, in.Old, in.New)))
	})
	return done, err
}

func readWhole(ctx context.Context, client *guest.Client, name string) (string, error) {
	contents, err := client.Read(ctx, name)
	if err != nil {
		return "", err
	}
	defer contents.Close()
	text, err := io.ReadAll(io.LimitReader(contents, maxEdited+1))
	if err == nil && len(text) > maxEdited {
		err = &sandbox.Error{Class: sandbox.Invalid, Field: "path", Reason: "the file has more than 8 MiB", Remedy: "edit it by a command, as sed"}
	}
	return string(text), err
}

// File describes something at a path.
type File struct {
	Path     string    `json:"path"`
	Type     string    `json:"type"`
	Bytes    int64     `json:"bytes"`
	Mode     string    `json:"mode,omitempty"`
	Owner    string    `json:"owner,omitempty"`
	Modified time.Time `json:"modified,omitzero"`
	Target   string    `json:"target,omitempty"`
}

// Files is a list of them.
type Files struct {
	Files     []File `json:"files"`
	Truncated bool   `json:"truncated,omitempty"`
}

func fileOf(e *pb.EntryInfo) File {
	f := File{Path: e.GetPath(), Type: typeOf(e), Bytes: e.GetSize(), Mode: e.GetPermissions(), Owner: e.GetOwner(), Target: e.GetSymlinkTarget()}
	if m := e.GetModifiedTime(); m != nil {
		f.Modified = m.AsTime()
	}
	return f
}

func typeOf(e *pb.EntryInfo) string {
	switch e.GetType() {
	case pb.FileType_FILE_TYPE_FILE:
		return "file"
	case pb.FileType_FILE_TYPE_DIRECTORY:
		return "directory"
	case pb.FileType_FILE_TYPE_SYMLINK:
		return "link"
	}
	return "other"
}

func (s *Session) listFiles(ctx context.Context, in listFilesArgs) (list Files, err error) {
	if in.Depth < 0 || in.Depth > 20 {
		return list, sandbox.Invalidf("depth", "%d is not between 1 and 20", in.Depth)
	}
	list.Files = []File{}
	err = s.at(ctx, in.pathArgs, func(client *guest.Client) error {
		entries, err := client.List(ctx, in.Path, uint32(max(1, in.Depth)))
		for _, e := range entries {
			if len(list.Files) == maxListed {
				list.Truncated = true
				break
			}
			list.Files = append(list.Files, fileOf(e))
		}
		return err
	})
	return list, err
}

func (s *Session) statFile(ctx context.Context, in pathArgs) (f File, err error) {
	err = s.at(ctx, in, func(client *guest.Client) error {
		entry, err := client.Stat(ctx, in.Path)
		if err == nil {
			f = fileOf(entry)
		}
		return err
	})
	return f, err
}

func (s *Session) moveFile(ctx context.Context, in moveArgs) (Done, error) {
	if err := checkPath("to", in.To); err != nil {
		return Done{}, err
	}
	err := s.at(ctx, pathArgs{in.of, in.From}, func(client *guest.Client) error { return client.Move(ctx, in.From, in.To) })
	return Done{"moved"}, err
}

// removeFile tells what was there from what was not: the guest service does not mind.
func (s *Session) removeFile(ctx context.Context, in pathArgs) (Done, error) {
	err := s.at(ctx, in, func(client *guest.Client) error {
		if _, err := client.Stat(ctx, in.Path); err != nil {
			return err
		}
		return client.Remove(ctx, in.Path)
	})
	return Done{"removed"}, err
}

func (s *Session) makeDirectory(ctx context.Context, in pathArgs) (Done, error) {
	err := s.at(ctx, in, func(client *guest.Client) error { return client.MakeDir(ctx, in.Path) })
	return Done{"made"}, err
}
