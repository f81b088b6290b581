package aether_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mayUseUnsafe are the folders that were made for raw memory and system calls.
var mayUseUnsafe = []string{"internal/host"}

// rawPackages are never imported anywhere else.
var rawPackages = []string{"unsafe", "golang.org/x/sys/unix"}

// Package syscall is where the standard library keeps the words of its own API:
// errors, signals, flags of os.OpenFile, and what os/exec and os.FileInfo are given
// or give. Those words call nothing; every function of the package does.
var (
	syscallTypes = []string{"Signal", "Errno", "SysProcAttr", "Credential", "Stat_t", "SysProcIDMap", "WaitStatus", "Timespec"}
	// A constant. The numbers of system calls are of use to those who make some.
	syscallConstant = regexp.MustCompile(`^([A-RT-Z]|S[A-XZ0-9_]|SY[A-RT-Z]|SYS[A-Z0-9])[A-Z0-9_]*$`)
)

// mayCall are files that make system calls all the same, and why.
var mayCall = map[string]string{
	"driver/command/commandtest/failures_linux.go": "it attacks: a descriptor without close-on-exec is what must not get into a sandbox",
}

// TestUnsafeOnlyInHost holds that raw memory and system calls are under
// internal/host, tests included, and generated code left out.
func TestUnsafeOnlyInHost(t *testing.T) {
	excused := map[string]bool{}
	eachFile(t, func(name string, file *ast.File, at *token.FileSet) {
		dir := path.Dir(filepath.ToSlash(name))
		if dir == "." || ast.IsGenerated(file) || slices.Contains(mayUseUnsafe, roomOf(dir).name) {
			return
		}
		found := rawUses(file)
		if mayCall[filepath.ToSlash(name)] != "" && len(found) > 0 {
			excused[filepath.ToSlash(name)] = true
			return
		}
		for _, n := range found {
			t.Errorf("%s: raw memory and system calls live under internal/host/, where reviewers look for them", at.Position(n.Pos()))
		}
	})
	for name := range mayCall {
		if !excused[name] {
			t.Errorf("%s makes no system call any more: take it off the list", name)
		}
	}
}

// rawUses finds imports of raw packages, and whatever of package syscall is no word.
func rawUses(file *ast.File) (found []ast.Node) {
	for _, spec := range file.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		switch {
		case err != nil || slices.Contains(rawPackages, to):
			found = append(found, spec)
		case to == "syscall" && spec.Name != nil: // by a name that is not looked for
			found = append(found, spec)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if to, ok := selectorOf(n, map[string]string{"syscall": "syscall"}); ok && !isWord(strings.TrimPrefix(to, "syscall.")) {
			found = append(found, n)
		}
		return true
	})
	return found
}

func isWord(name string) bool {
	return slices.Contains(syscallTypes, name) || syscallConstant.MatchString(name)
}

// TestRawUses tries what TestUnsafeOnlyInHost looks with.
func TestRawUses(t *testing.T) {
	for source, want := range map[string]int{
		`import "unsafe"`:                                   1,
		`import u "golang.org/x/sys/unix"`:                  1,
		`import . "syscall"`:                                1,
		`import raw "syscall"`:                              1,
		`import "syscall"; var _ = syscall.Kill(1, 9)`:      1,
		`import "syscall"; var call = syscall.RawSyscall`:   1,
		`import "syscall"; const number = syscall.SYS_KILL`: 1,
		`import "syscall"; var _ syscall.RawConn`:           1,
		`import "syscall"; var _ error = syscall.ENOENT`:    0,
		`import "syscall"; var _ = syscall.S_IFMT`:          0,
		`import "syscall"; var _ = syscall.SIGSYS`:          0,
		`import "syscall"; var _ = syscall.O_NONBLOCK`:      0,
		`import "syscall"; var _ = syscall.Signal(9)`:       0,
		`import "syscall"; var _ syscall.SysProcAttr`:       0,
		`import "fmt"; func f() { fmt.Println() }`:          0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p;"+source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(rawUses(file)); got != want {
			t.Errorf("%s: %d raw uses, want %d", source, got, want)
		}
	}
}
