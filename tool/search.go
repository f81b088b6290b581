package tool

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"path"
	"regexp"

	"aether/guest"
	"aether/sandbox"

	pb "aether/guest/wire/filesystem"
)

// A search ends when it has found or looked at so much.
const (
	maxMatches     = 200
	maxSearched    = 5000
	maxSearchBytes = 64 << 20
	maxSearchFile  = 4 << 20
	maxSearchLine  = 64 << 10
	searchDepth    = 20
)

type searchArgs struct {
	pathArgs
	Pattern string `json:"pattern,omitempty" jsonschema:"of lines"`
	Glob    string `json:"glob,omitempty" jsonschema:"of file names, as *.go"`
}

// Matches are what a search found.
type Matches struct {
	Matches []Match `json:"matches"`
	// Truncated says that the search ended before it had looked at all files: give a
	// smaller path or a glob.
	Truncated bool `json:"truncated,omitempty"`
	Searched  int  `json:"searched"`
}

// Match is a line, or without a pattern a file.
type Match struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text,omitempty"`
}

func (s *Session) searchFiles(ctx context.Context, in searchArgs) (found Matches, err error) {
	found.Matches = []Match{}
	if in.Pattern == "" && in.Glob == "" {
		return found, sandbox.Invalidf("pattern", "there is neither pattern nor glob")
	}
	lines, err := regexp.Compile(in.Pattern)
	if err != nil {
		return found, sandbox.Invalidf("pattern", "%.200s", err)
	}
	if _, err := path.Match(in.Glob, ""); err != nil {
		return found, sandbox.Invalidf("glob", "%.200s", err)
	}
	err = s.at(ctx, in.pathArgs, func(client *guest.Client) error {
		entries, err := client.List(ctx, in.Path, searchDepth)
		if err != nil {
			return err
		}
		left := int64(maxSearchBytes)
		for _, e := range entries {
			if e.GetType() != pb.FileType_FILE_TYPE_FILE {
				continue
			}
			if matched, _ := path.Match(in.Glob, e.GetName()); in.Glob != "" && !matched {
				continue
			}
			if len(found.Matches) >= maxMatches || found.Searched >= maxSearched || left <= 0 {
				found.Truncated = true
				return nil
			}
			found.Searched++
			if in.Pattern == "" {
				found.Matches = append(found.Matches, Match{Path: e.GetPath()})
				continue
			}
			read, err := found.searchFile(ctx, client, e.GetPath(), lines)
			if left -= read; err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// searchFile adds the lines of a file that match. What cannot be read, or is no text, has
// none.
func (m *Matches) searchFile(ctx context.Context, client *guest.Client, name string, lines *regexp.Regexp) (read int64, err error) {
	contents, err := client.Read(ctx, name)
	if err != nil {
		return 0, ctx.Err()
	}
	defer contents.Close()
	bounded := &io.LimitedReader{R: contents, N: maxSearchFile}
	scan := bufio.NewScanner(bounded)
	scan.Buffer(make([]byte, 0, 4096), maxSearchLine)
	for number := 1; scan.Scan(); number++ {
		if bytes.IndexByte(scan.Bytes(), 0) >= 0 {
			break
		}
		if !lines.Match(scan.Bytes()) {
			continue
		}
		if len(m.Matches) == maxMatches {
			m.Truncated = true
			break
		}
		m.Matches = append(m.Matches, Match{name, number, clip(string(bytes.ToValidUTF8(scan.Bytes(), []byte("?"))), 300)})
	}
	m.Truncated = m.Truncated || bounded.N == 0 || scan.Err() != nil
	return maxSearchFile - bounded.N, ctx.Err()
}
