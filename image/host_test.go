package image

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"aether/internal/unprivtest"
)

const secret = "TOPSECRET"

// fakeHost is a host whose /etc is full of traps.
func fakeHost(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	check(t, os.Chmod(root, 0o755))
	for name, mode := range map[string]fs.FileMode{
		"etc/passwd": 0o644, "etc/passwd-": 0o644, "etc/shadow": 0o644, "etc/gshadow": 0o644, "etc/sudoers": 0o644,
		"etc/machine-id": 0o644, "etc/hostname": 0o644, "etc/hosts": 0o644, "etc/resolv.conf": 0o644, "etc/krb5.keytab": 0o644,
		"etc/gitconfig": 0o644, "etc/npmrc": 0o644, "etc/environment": 0o644, "etc/profile": 0o644, "etc/nsswitch.conf": 0o644,
		"etc/ssh/ssh_host_rsa_key": 0o644, "etc/apt/auth.conf": 0o644, "etc/ssl/private/key.pem": 0o644,
		"etc/ssl/certs/host.key": 0o644, "etc/ssl/certs/private/x": 0o644, "etc/services": 0o640,
		"etc/java-1/management/jmxremote.password": 0o644, "etc/java-2/closed/f": 0o644, "etc/perl/0600": 0o600,
		"root/.ssh/id": 0o644, "home/alice/f": 0o644, "var/lib/db": 0o644,
	} {
		put(t, root, name, secret, mode)
	}
	check(t, os.Chmod(filepath.Join(root, "etc/java-2/closed"), 0o711))
	put(t, root, "etc/ssl/certs/leak.pem", "-----BEGIN RSA PRIVATE KEY-----\n"+secret, 0o644)
	for name, text := range map[string]string{"etc/ssl/certs/ok.pem": "certificate", "etc/ld.so.cache": "cache", "etc/java-1/a.cfg": "java", "etc/perl/x/y": "perl", "usr/bin/bash": "", "usr/lib/x": ""} {
		put(t, root, name, text, 0o644)
	}
	for name, target := range map[string]string{
		"bin": "usr/bin", "lib": "/usr/lib", "etc/localtime": "/usr/share/zoneinfo/UTC", "etc/os-release": "../usr/lib/os-release",
		"etc/alternatives/good": "/usr/bin/bash", "etc/alternatives/evil": "/root/.ssh/id", "etc/alternatives/climb": "../../root/.ssh/id",
		"etc/ssl/certs/a.pem": "ok.pem", "etc/ssl/certs/b.pem": "../private/key.pem", "etc/ssl/certs/c.pem": "/etc/shadow", "etc/ssl/certs/d.pem": "/usr/../root/.ssh/id",
		"etc/python3": "/root/.ssh", "etc/fonts": "ssh", "etc/terminfo": "../home/alice", "etc/pki": "../root",
	} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		check(t, os.Symlink(target, filepath.Join(root, name)))
	}
	// Reached by name through a link: /etc/pki is /root.
	put(t, root, "root/tls/certs/x.pem", secret, 0o644)
	check(t, exec.Command("mkfifo", filepath.Join(root, "etc/ssl/certs/fifo")).Run())
	return root
}

func put(t *testing.T, root, name, text string, mode fs.FileMode) {
	t.Helper()
	path := filepath.Join(root, name)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(text), 0o644))
	check(t, os.Chmod(path, mode))
}

func TestHostImageHoldsNoSecret(t *testing.T) {
	s := openStore(t)
	s.hostRoot = fakeHost(t)
	root := resolve(t, s, "host")
	skeleton := root.Layers[0]
	check(t, filepath.WalkDir(skeleton, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			wantNoSecret(t, path, e)
		}
		return err
	}))
	for name, want := range map[string]string{"etc/ssl/certs/ok.pem": "certificate", "etc/ld.so.cache": "cache", "etc/java-1/a.cfg": "java", "etc/perl/x/y": "perl", "etc/resolv.conf": "nameserver 198.18.0.1\n"} {
		if got := read(t, skeleton, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"bin": "usr/bin", "lib": "/usr/lib", "etc/localtime": "/usr/share/zoneinfo/UTC", "etc/os-release": "../usr/lib/os-release", "etc/alternatives/good": "/usr/bin/bash", "etc/ssl/certs/a.pem": "ok.pem"} {
		if got, err := os.Readlink(filepath.Join(skeleton, name)); got != want {
			t.Errorf("%s leads to %q (%v), want %q", name, got, err, want)
		}
	}
	if want := []Bind{{filepath.Join(s.hostRoot, "usr"), "/usr"}}; !slices.Equal(root.Binds, want) {
		t.Errorf("binds %v, want %v", root.Binds, want)
	}
}

func wantNoSecret(t *testing.T, path string, e fs.DirEntry) {
	t.Helper()
	switch e.Type() {
	case 0:
		if text := read(t, path); strings.Contains(text, secret) {
			t.Errorf("%s holds a secret", path)
		}
	case fs.ModeSymlink:
		target, err := os.Readlink(path)
		check(t, err)
		for _, bad := range []string{"root", "shadow", "private", "ssh", "home"} {
			if strings.Contains(target, bad) {
				t.Errorf("%s leads to %s", path, target)
			}
		}
	case fs.ModeDir:
	default:
		t.Errorf("%s is %v", path, e.Type())
	}
}

func TestHostImageIsUsable(t *testing.T) {
	root := resolve(t, openStore(t), "")
	skeleton := root.Layers[0]
	for name, mode := range map[string]fs.FileMode{"tmp": fs.ModeDir | fs.ModeSticky | 0o777, "var/tmp": fs.ModeDir | fs.ModeSticky | 0o777, "root": fs.ModeDir | 0o700, "home/user": fs.ModeDir | 0o755, "proc": fs.ModeDir | 0o755, "dev": fs.ModeDir | 0o755, "etc/passwd": 0o644} {
		info, err := os.Lstat(filepath.Join(skeleton, name))
		check(t, err)
		if info.Mode() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode(), mode)
		}
	}
	absent(t, skeleton, "sys")
	absent(t, skeleton, "etc/shadow")
	passwd := read(t, skeleton, "etc/passwd")
	if !strings.Contains(passwd, "user:x:1000:1000::/home/user:/bin/") || strings.Count(passwd, "\n") != 3 {
		t.Errorf("passwd is %q", passwd)
	}
	if c := root.Config; c.User != "user" || c.WorkDir != "/home/user" || c.Env["PATH"] != defaultPath {
		t.Errorf("configuration %+v", c)
	}
}

func TestHostWithoutMergedUsr(t *testing.T) {
	s, host := openStore(t), t.TempDir()
	for _, name := range []string{"usr/bin/x", "bin/sh", "lib/x"} {
		put(t, host, name, "", 0o755)
	}
	s.hostRoot = host
	var targets []string
	for _, bind := range resolve(t, s, "host").Binds {
		targets = append(targets, bind.Target)
	}
	if want := []string{"/usr", "/bin", "/lib"}; !slices.Equal(targets, want) {
		t.Errorf("binds %v, want %v", targets, want)
	}
}

// TestHostChanges: what is added, changed, closed or removed is seen, and nothing
// else makes a new skeleton.
func TestHostChanges(t *testing.T) {
	host, dir := fakeHost(t), filepath.Join(t.TempDir(), "store")
	look := func() string {
		s, err := Open(dir)
		check(t, err)
		s.hostRoot = host
		return resolve(t, s, "host").Digest
	}
	last := look()
	if look() != last {
		t.Error("the same host gave another skeleton")
	}
	put(t, host, "etc/unrelated", "", 0o644)
	if look() != last {
		t.Error("an unrelated file gave another skeleton")
	}
	for name, change := range map[string]func(){
		"added file":    func() { put(t, host, "etc/ssl/certs/new.pem", "new", 0o644) },
		"added at top":  func() { put(t, host, "etc/timezone", "UTC", 0o644) },
		"changed file":  func() { put(t, host, "etc/java-1/a.cfg", "longer text", 0o644) },
		"same size":     func() { touch(t, filepath.Join(host, "etc/ld.so.cache")) },
		"closed file":   func() { check(t, os.Chmod(filepath.Join(host, "etc/perl/x/y"), 0o600)) },
		"opened file":   func() { check(t, os.Chmod(filepath.Join(host, "etc/services"), 0o644)) },
		"removed file":  func() { check(t, os.Remove(filepath.Join(host, "etc/ssl/certs/ok.pem"))) },
		"changed link":  func() { relink(t, filepath.Join(host, "etc/alternatives/good"), "/usr/bin/other") },
		"removed shell": func() { check(t, os.Remove(filepath.Join(host, "usr/bin/bash"))) },
	} {
		change()
		next := look()
		if next == last {
			t.Errorf("%s: the skeleton stayed the same", name)
		}
		last = next
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	when := time.Now().Add(time.Hour)
	check(t, os.Chtimes(path, when, when))
}

func relink(t *testing.T, path, target string) {
	t.Helper()
	check(t, os.Remove(path))
	check(t, os.Symlink(target, path))
}

// TestHostStampIsUsed guards the way that every command line takes: the plan is
// not made again for an unchanged host.
func TestHostStampIsUsed(t *testing.T) {
	s := openStore(t)
	s.hostRoot = fakeHost(t)
	if _, ok := s.loadStamp(); ok {
		t.Fatal("a stamp before the first look")
	}
	first := resolve(t, s, "host")
	if second, ok := s.loadStamp(); !ok || second.Digest != first.Digest {
		t.Errorf("the stamp gives %+v, %v", second, ok)
	}
	check(t, os.WriteFile(s.stampFile(), []byte("broken"), 0o600))
	s.host = hostCache{}
	if again := resolve(t, s, "host"); again.Digest != first.Digest {
		t.Errorf("a broken stamp changed the digest to %s", again.Digest)
	}
}

func TestEtcPatternsAreWellFormed(t *testing.T) {
	for _, pattern := range slices.Concat(etcAllowed, etcDenied) {
		if _, err := filepath.Match(pattern, "x"); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func BenchmarkResolveHost(b *testing.B) {
	s := openStore(b)
	for name, forget := range map[string]func(){"cached": func() {}, "stamp": func() { s.host = hostCache{} }} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				forget()
				resolve(b, s, "host")
			}
		})
	}
}

// TestAsOrdinaryUser runs this package's tests once more without privilege.
func TestAsOrdinaryUser(t *testing.T) {
	unprivtest.AsOrdinaryUser(t, []string{"-test.skip=Registry|Download|^TestAsOrdinaryUser$"})
}
