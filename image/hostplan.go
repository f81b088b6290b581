package image

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// skeletonVersion changes when the same inputs make another skeleton.
const skeletonVersion = 2

// hostPlan is everything a skeleton is made of, in the order in which it is made.
type hostPlan struct {
	root  string
	items []hostItem
	binds []Bind
	// watched are the paths whose metadata tells whether the plan still holds.
	watched []string
}

// hostItem is one entry of a skeleton: a directory, a link with its target, a copy
// of the host's file of that name (source), or else a text of our own.
type hostItem struct {
	name   string
	mode   fs.FileMode
	id     int // of its user and group
	target string
	text   string
	source fs.FileInfo
}

func planHost(root string) (*hostPlan, error) {
	p := &hostPlan{root: root, watched: []string{".", "etc", shellPath}}
	p.planOwn()
	if err := p.planSystem(); err != nil {
		return nil, err
	}
	for _, name := range etcAllowed {
		if err := p.planAllowed(name); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// sum names the skeleton by its inputs, of which files are told by their metadata:
// reading them all for each sandbox would take too long.
func (p *hostPlan) sum() [sha256.Size]byte {
	hash := sha256.New()
	fmt.Fprintf(hash, "skeleton %d as %d\n", skeletonVersion, os.Geteuid())
	for _, item := range p.items {
		fmt.Fprintf(hash, "%q %o %d %q %q", item.name, item.mode, item.id, item.target, item.text)
		if item.source != nil {
			fmt.Fprintf(hash, " %d %d", item.source.Size(), item.source.ModTime().UnixNano())
		}
		fmt.Fprintln(hash)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

func (p *hostPlan) addDir(name string, mode fs.FileMode) {
	p.items = append(p.items, hostItem{name: name, mode: fs.ModeDir | mode})
}

func (p *hostPlan) addText(name, text string) {
	p.items = append(p.items, hostItem{name: name, mode: 0o644, text: text})
}

// addLink copies a link of the host as a link, if what it names is shown too.
// Inside a sandbox no link leads to the host, but a dangling one tells of it.
func (p *hostPlan) addLink(name string) error {
	target, err := os.Readlink(filepath.Join(p.root, name))
	if err != nil {
		return err
	}
	if leadsInside(name, target) {
		p.items = append(p.items, hostItem{name: name, mode: fs.ModeSymlink, target: target})
	}
	return nil
}

func leadsInside(name, target string) bool {
	if !path.IsAbs(target) {
		target = path.Join("/", path.Dir(name), target)
	}
	target = strings.TrimPrefix(path.Clean(target), "/")
	first, rest, _ := strings.Cut(target, "/")
	for _, dir := range systemDirs {
		if first == dir {
			return true
		}
	}
	return first == "etc" && etcAllows(rest)
}

// planAllowed adds what one line of the list matches in /etc.
func (p *hostPlan) planAllowed(pattern string) error {
	matches, err := filepath.Glob(filepath.Join(p.root, "etc", pattern))
	if err != nil {
		return err
	}
	for _, match := range matches {
		name, err := filepath.Rel(p.root, match)
		if err != nil {
			return err
		}
		if p.realParents(name) {
			err = p.planEtc(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// realParents holds where every directory above name is one, not a link, and
// open to everybody, so that name is what it seems.
func (p *hostPlan) realParents(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		p.watched = append(p.watched, dir)
		info, err := os.Lstat(filepath.Join(p.root, dir))
		if err != nil || !info.IsDir() || info.Mode().Perm()&0o005 != 0o005 {
			return false
		}
	}
	return true
}

// planEtc adds a file, a link or a directory with all it holds, as far as
// everybody on the host may read it.
func (p *hostPlan) planEtc(name string) error {
	info, err := os.Lstat(filepath.Join(p.root, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a host changes while one looks
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSymlink {
		p.watched = append(p.watched, name)
	}
	switch mode := info.Mode(); {
	case etcDenies(name):
	case mode.Type() == fs.ModeSymlink:
		return p.addLink(name)
	case mode.IsRegular() && mode.Perm()&0o004 != 0:
		p.items = append(p.items, hostItem{name: name, mode: 0o644 | mode.Perm()&0o111, source: info})
	case mode.IsDir() && mode.Perm()&0o005 == 0o005:
		return p.planEtcDir(name)
	}
	return nil
}

func (p *hostPlan) planEtcDir(name string) error {
	p.addDir(name, 0o755)
	entries, err := os.ReadDir(filepath.Join(p.root, name))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := p.planEtc(path.Join(name, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}
