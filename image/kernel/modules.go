package kernel

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aether/sandbox"
)

// Module is one module, unpacked.
type Module struct {
	Name string
	Data []byte
}

// Load gives the modules of those names and everything that they need, each after
// what it needs. What is built into the kernel is left out, and so is what a kernel
// does not have of the names that end in a question mark. Errors: NotFound for another
// module that this kernel does not have.
func (k Kernel) Load(ctx context.Context, names ...string) ([]Module, error) {
	l := &loader{ctx: ctx, files: map[string]string{}, done: map[string]bool{}}
	if err := l.index(k.Modules); err != nil {
		return nil, fmt.Errorf("kernel: modules of %s: %w", k.Release, err)
	}
	for _, name := range names {
		name, wanted := strings.CutSuffix(name, "?")
		if err := l.load(name, !wanted); err != nil {
			return nil, fmt.Errorf("kernel: %s: %w", k.Release, err)
		}
	}
	return l.list, nil
}

type loader struct {
	ctx   context.Context
	files map[string]string // by name
	done  map[string]bool   // loaded, being loaded or built in
	list  []Module
}

// suffixes are how modules are packed, which the file's content tells anyway.
var suffixes = []string{".ko", ".ko.xz", ".ko.zst", ".ko.gz"}

// moduleName is the one form of a name that has dashes in some places and
// underscores in others.
func moduleName(file string) (string, bool) {
	base := filepath.Base(file)
	for _, suffix := range suffixes {
		if name, ok := strings.CutSuffix(base, suffix); ok {
			return strings.ReplaceAll(name, "-", "_"), true
		}
	}
	return "", false
}

// index finds every module by its file: the list of dependencies that installing
// a kernel makes is missing where it was only unpacked.
func (l *loader) index(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name, ok := moduleName(path); ok && entry.Type().IsRegular() {
			l.files[name] = path
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a kernel with all built in has no modules
	}
	if err != nil {
		return err
	}
	return l.builtin(filepath.Join(dir, "modules.builtin"))
}

func (l *loader) builtin(list string) error {
	text, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		if name, ok := moduleName(scan.Text()); ok {
			l.done[name] = true
		}
	}
	return nil
}

func (l *loader) load(name string, needed bool) error {
	name = strings.ReplaceAll(name, "-", "_")
	if l.done[name] {
		return nil
	}
	l.done[name] = true // also ends circles, of which there are none
	file, ok := l.files[name]
	if !ok {
		if !needed {
			return nil
		}
		return &sandbox.Error{Class: sandbox.NotFound, Reason: "it has no module " + name,
			Remedy: "use a kernel for virtual machines, as `aether kernel install` fetches"}
	}
	data, err := readBounded(file)
	if err != nil {
		return err
	}
	if data, err = unpack(l.ctx, data); err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	if err := l.loadNeeds(data); err != nil {
		return fmt.Errorf("module %s: %w", name, err)
	}
	l.list = append(l.list, Module{name, data})
	return nil
}

func (l *loader) loadNeeds(module []byte) error {
	hard, soft, err := needs(module)
	if err != nil {
		return err
	}
	for _, name := range hard {
		name, wanted := strings.CutSuffix(name, "?")
		if err := l.load(name, !wanted); err != nil {
			return err
		}
	}
	for _, name := range soft {
		if err := l.load(name, false); err != nil {
			return err
		}
	}
	return nil
}

// needs reads what a module says of itself: lines that a zero byte ends.
func needs(module []byte) (hard, soft []string, err error) {
	file, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return nil, nil, broken(err)
	}
	section := file.Section(".modinfo")
	if section == nil {
		return nil, nil, sandbox.Invalidf("kernel", "it has no description")
	}
	text, err := section.Data()
	if err != nil {
		return nil, nil, broken(err)
	}
	for line := range strings.SplitSeq(string(text), "\x00") {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "depends":
			hard = append(hard, splitList(value, ",")...)
		case "softdep":
			soft = append(soft, beforehand(value)...)
		}
	}
	return hard, soft, nil
}

// beforehand are the names between "pre:" and "post:".
func beforehand(softdep string) []string {
	_, rest, _ := strings.Cut(softdep, "pre:")
	rest, _, _ = strings.Cut(rest, "post:")
	return strings.Fields(rest)
}

func splitList(s, separator string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, separator)
}
