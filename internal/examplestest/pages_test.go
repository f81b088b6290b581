package examplestest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPagesShowTheExamples: the code on a page is a part of the file it names.
func TestPagesShowTheExamples(t *testing.T) {
	names, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, name := range names {
		page := filepath.Base(name)
		for _, found := range namedBlock.FindAllStringSubmatch(readPage(t, page), -1) {
			shown++
			file, err := os.ReadFile(filepath.Join("../..", found[1]))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(file), found[2]) {
				t.Errorf("%s shows what is not in %s:\n%s", page, found[1], found[2])
			}
		}
	}
	if shown < 3 {
		t.Errorf("only %d blocks of code name their file", shown)
	}
}

// namedBlock is a block of Go or TypeScript below a line that names its file.
var namedBlock = regexp.MustCompile("(?s)<!-- ([a-z/_.-]+) -->\n```(?:go|ts)\n(.*?)```\n")

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is the rest of the block of a page that begins so.
func block(t *testing.T, page, kind, begin string) string {
	t.Helper()
	_, rest, found := strings.Cut(readPage(t, page), "```"+kind+"\n"+begin)
	text, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatalf("%s has no block that begins with %q", page, begin)
	}
	return text
}
