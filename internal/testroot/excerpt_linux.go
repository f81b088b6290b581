package testroot

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"aether/sandbox"
)

// accounts are enough for programs that ask who they are.
const (
	passwd = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n"
	group  = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"
)

// Shell are the programs that scripts take for granted.
var Shell = strings.Fields(`sh bash cat chmod chown cp cut date dd df du echo env expr false find grep head hostname id kill
	ln ls mkdir mkfifo mktemp mount mv nice nohup od printf ps pwd readlink rm rmdir sed seq setsid sleep sort stat stty sync
	tail tee test timeout touch tr true truncate tty umount uname uniq wc which whoami xargs yes awk cmp sha256sum`)

// Make fills dir, which exists and is empty. Programs are names in PATH or paths;
// they go where the host has them, and files as well. Errors: NotFound, for what the
// host does not have.
func Make(dir string, programs, files []string) error {
	m := &maker{dir: dir, done: map[string]bool{}}
	if err := m.skeleton(); err != nil {
		return err
	}
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			return missing(name, err)
		}
		if err := m.add(path); err != nil {
			return err
		}
	}
	for _, name := range files {
		if err := m.addTree(name); err != nil {
			return err
		}
	}
	return nil
}

func missing(name string, err error) error {
	return &sandbox.Error{Class: sandbox.NotFound, Op: "excerpt", Reason: "the host has no " + name, Err: err}
}

type maker struct {
	dir  string
	done map[string]bool
}

// skeleton has the links of the host's root, so that every path means the same.
func (m *maker) skeleton() error {
	for _, name := range []string{"/bin", "/sbin", "/lib", "/lib64"} {
		target, err := os.Readlink(name)
		if err != nil {
			continue // a directory, which is made when something goes into it
		}
		if err := os.Symlink(target, filepath.Join(m.dir, name)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"etc/passwd": passwd, "etc/group": group, "etc/hosts": "127.0.0.1 localhost\n"} {
		if err := m.write(name, text); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(m.dir, "root"), 0o700)
}

func (m *maker) write(name, text string) error {
	name = filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}

// add copies a program or library and what it loads.
func (m *maker) add(path string) error { return m.addFile(path, m.addNeeds) }

// addFile copies a file and the links that lead to it; then is done with the file.
func (m *maker) addFile(path string, then func(path string) error) error {
	if m.done[path] {
		return nil
	}
	m.done[path] = true
	info, err := os.Lstat(path)
	if err != nil {
		return missing(path, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return m.addLink(path, then)
	}
	if err := m.copy(path, info); err != nil {
		return err
	}
	return then(path)
}

// addLink copies a link and what it leads to.
func (m *maker) addLink(path string, then func(path string) error) error {
	target, err := os.Readlink(path)
	if err != nil {
		return err
	}
	if err := m.place(path, func(to string) error { return os.Symlink(target, to) }); err != nil {
		return err
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(path), target)
	}
	return m.addFile(target, then)
}

// place makes an entry at the same path, in a directory that the host's links of
// the root lead to.
func (m *maker) place(path string, make func(to string) error) error {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return err
	}
	to := filepath.Join(m.dir, parent, filepath.Base(path))
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if err := make(to); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (m *maker) copy(path string, info fs.FileInfo) error {
	return m.place(path, func(to string) error {
		from, err := os.Open(path)
		if err != nil {
			return err
		}
		defer from.Close()
		file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(file, from)
		return errors.Join(err, file.Close())
	})
}

// addNeeds adds the loader and the libraries that a program names. What is no
// such program (a script) needs nothing.
func (m *maker) addNeeds(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return nil //nolint:nilerr // not an ELF file
	}
	defer file.Close()
	if loader := interpreter(file); loader != "" {
		if err := m.add(loader); err != nil {
			return err
		}
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("excerpt: %s: %w", path, err)
	}
	for _, name := range libraries {
		found, err := findLibrary(file, path, name)
		if err != nil {
			return err
		}
		if err := m.add(found); err != nil {
			return err
		}
	}
	return nil
}

func interpreter(file *elf.File) string {
	for _, p := range file.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
		if err == nil {
			return strings.TrimRight(string(text), "\x00")
		}
	}
	return ""
}

// libraryDirs are where loaders look, whatever their cache says.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

func findLibrary(file *elf.File, user, name string) (string, error) {
	runPath, err := file.DynString(elf.DT_RUNPATH)
	if err != nil {
		return "", fmt.Errorf("excerpt: %s: %w", user, err)
	}
	var dirs []string
	for _, list := range runPath {
		list = strings.ReplaceAll(list, "$ORIGIN", filepath.Dir(user))
		dirs = append(dirs, strings.Split(list, ":")...)
	}
	for _, dir := range slices.Concat(dirs, libraryDirs) {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", missing("library "+name+", which "+user+" needs", nil)
}

// addTree copies a file or a directory with all that is in it.
func (m *maker) addTree(name string) error {
	alone := func(string) error { return nil }
	info, err := os.Stat(name)
	if err != nil {
		return missing(name, err)
	}
	if !info.IsDir() {
		return m.addFile(name, alone)
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return missing(name, err)
	}
	return filepath.WalkDir(real, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return m.addFile(path, alone)
	})
}
