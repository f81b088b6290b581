package list

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"aether/internal/bounded"
	"aether/internal/host/storedir"
	"aether/sandbox"
)

const (
	suffix   = ".list"
	maxFiles = 256
	maxLine  = 1024
	// maxFaults is how many bad lines are told at once.
	maxFaults = 20
)

// Book is the lists of an operator, by name.
type Book struct{ lists map[string]*file }

// file is one list as it is written.
type file struct {
	path     string
	entries  []Entry
	includes []include
}

type include struct {
	line int
	name string
}

// Load reads a directory of files NAME.list, or one such file. A line is an entry as a
// sandbox.Reach is written, the name of another list included, which may be followed by
// the word private; # begins a comment. Errors: NotFound; Denied for files that others can change; Invalid with file,
// line and entry for each that is wrong.
func Load(path string) (*Book, error) {
	paths, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	b := &Book{lists: map[string]*file{}}
	faults, total := &faults{}, 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), suffix)
		if !sandbox.IsListName(name) || isReserved(name) {
			faults.add(path, 0, name, "cannot name a list: names are of a to z, 0 to 9 and -, no numbers, and neither packages nor public")
			continue
		}
		text, err := readTrusted(path)
		if err != nil {
			return nil, err
		}
		b.lists[name] = parseFile(path, text, faults)
		if total += len(b.lists[name].entries); total > maxEntries {
			return nil, sandbox.Invalidf("lists", "%s has over %d entries", path, maxEntries)
		}
	}
	b.checkIncludes(faults)
	if err := faults.err(); err != nil {
		return nil, err
	}
	return b, nil
}

func filesOf(path string) ([]string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "list", Reason: path + " does not exist"}
	}
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) && !strings.HasPrefix(e.Name(), ".") {
			paths = append(paths, filepath.Join(path, e.Name()))
		}
	}
	if len(paths) > maxFiles {
		return nil, sandbox.Invalidf("lists", "%s has over %d lists", path, maxFiles)
	}
	return paths, nil
}

// readTrusted reads a file that its operator alone can have written.
func readTrusted(path string) ([]byte, error) {
	if err := storedir.Trusted(path); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o002 != 0 {
		return nil, &sandbox.Error{Class: sandbox.Denied, Op: "list", Reason: path + " is no regular file, or may be written by everybody", Remedy: "chmod o-w " + path}
	}
	text, err := bounded.ReadFile(path, maxSettings)
	if err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	return text, nil
}

// parseFile reads the lines of a file.
func parseFile(path string, text []byte, faults *faults) *file {
	f := &file{path: path}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		words := strings.Fields(withoutComment(line))
		switch {
		case len(line) > maxLine:
			faults.add(path, number, line[:40], "is too long a line")
		case len(words) == 0:
		case len(words) > 2 || len(words) == 2 && words[1] != "private":
			faults.add(path, number, strings.Join(words, " "), "has more than an entry and the word private")
		default:
			f.entry(number, words[0], len(words) == 2, faults)
		}
	}
	return f
}

// withoutComment cuts at a # that begins a word.
func withoutComment(line string) string {
	for at, r := range line {
		if r == '#' && (at == 0 || line[at-1] == ' ' || line[at-1] == '\t') {
			return line[:at]
		}
	}
	return line
}

// entry takes what a line allows. Addresses are what they are; that a name leads to a
// private one is the operator's to say, or whoever answers for the name could.
func (f *file) entry(number int, text string, private bool, faults *faults) {
	r, err := sandbox.ParseReach(text)
	switch {
	case err != nil:
		faults.addError(f.path, number, err)
	case r.List != "" && private:
		faults.add(f.path, number, text+" private", "is a list, which says itself what is private")
	case r.List != "":
		f.includes = append(f.includes, include{number, r.List})
	default:
		private = private || r.Prefix.IsValid() && !sandbox.IsPublicPrefix(r.Prefix)
		f.entries = append(f.entries, Entry{Allow: r.String(), Private: private, From: fmt.Sprintf("%s:%d", f.path, number)})
	}
}

// checkIncludes refuses names of no list, and lists that include themselves.
func (b *Book) checkIncludes(faults *faults) {
	for _, name := range b.Names() {
		for _, inc := range b.lists[name].includes {
			switch {
			case isReserved(inc.name):
			case b.lists[inc.name] == nil:
				faults.add(b.lists[name].path, inc.line, inc.name, "is no list; a host of one word is written "+inc.name+". or with a port")
			case b.reaches(inc.name, name, map[string]bool{}):
				faults.add(b.lists[name].path, inc.line, inc.name, "includes "+name+" itself")
			}
		}
	}
}

func (b *Book) reaches(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] || b.lists[from] == nil {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(b.lists[from].includes, func(i include) bool { return b.reaches(i.name, to, seen) })
}

// Names are those of the lists, sorted.
func (b *Book) Names() []string { return slices.Sorted(maps.Keys(b.lists)) }

// List gives a list with the entries of those that it includes. Of these, packages and
// public stay names: they are for whoever evaluates them. Errors: NotFound.
func (b *Book) List(name string) (List, error) {
	if b.lists[name] == nil {
		return List{}, &sandbox.Error{Class: sandbox.NotFound, Op: "list", Reason: fmt.Sprintf("there is no list %.80q", name)}
	}
	l := List{Name: name, Source: "the file " + b.lists[name].path, Entries: []Entry{}}
	b.gather(name, &l, map[string]bool{})
	return l, nil
}

func (b *Book) gather(name string, l *List, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	if isReserved(name) {
		l.Includes = append(l.Includes, name)
		return
	}
	for _, e := range b.lists[name].entries {
		l.add(e)
	}
	for _, inc := range b.lists[name].includes {
		b.gather(inc.name, l, seen)
	}
}
