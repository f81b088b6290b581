package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"aether/sandbox"
)

// Kernel is a Linux kernel and its modules.
type Kernel struct {
	// Release is what uname -r says inside, and names the modules.
	Release string `json:"release"`
	// Image is the file that is booted.
	Image string `json:"image"`
	// Modules is the directory of its modules. It may be missing: then all that
	// is needed must be built in.
	Modules string `json:"modules"`
}

// Places say where kernels are looked for.
type Places struct {
	// Named is a kernel that the user wants, and then no other will do.
	Named string
	// Installed is the directory that Install fills.
	Installed string
	// Host is the root of the host's own system; empty means "/".
	Host string
}

// Find gives the first kernel of: the named one, the newest installed one, the
// newest of the host. Errors: NotFound, with what to do about it; Invalid for a
// named file that is no kernel.
func Find(places Places) (Kernel, error) {
	if places.Named != "" {
		return named(places.Named)
	}
	roots := installed(places.Installed)
	if places.Host == "" {
		places.Host = "/"
	}
	for _, root := range append(roots, places.Host) {
		if k, ok := newest(root); ok {
			return k, nil
		}
	}
	return Kernel{}, &sandbox.Error{Class: sandbox.NotFound, Op: "kernel",
		Reason: "there is no kernel for machines: none is installed, and the host has none in /boot that this user may read",
		Remedy: "run `aether kernel install`, or name one in AETHER_KERNEL"}
}

func named(image string) (Kernel, error) {
	release, err := releaseOf(image)
	if err != nil {
		return Kernel{}, err
	}
	k := Kernel{Release: release, Image: image}
	// As packages lay them out, else as the host has them.
	for _, root := range []string{filepath.Dir(filepath.Dir(image)), "/"} {
		k.Modules = modulesDir(root, release)
		if isDir(k.Modules) {
			break
		}
	}
	return k, nil
}

// installed lists the roots that Install made.
func installed(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // none yet
	}
	var roots []string
	for _, entry := range entries {
		if entry.IsDir() && !strings.HasPrefix(entry.Name(), ".") {
			roots = append(roots, filepath.Join(dir, entry.Name()))
		}
	}
	slices.SortFunc(roots, func(a, b string) int { return compareReleases(filepath.Base(b), filepath.Base(a)) })
	return roots
}

// newest finds the newest readable kernel with modules below a root.
func newest(root string) (best Kernel, ok bool) {
	for _, pattern := range []string{"boot/vmlinuz-*", "boot/vmlinux-*", "lib/modules/*/vmlinuz"} {
		images, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is well-formed
		for _, image := range images {
			release, err := releaseOf(image)
			k := Kernel{release, image, modulesDir(root, release)}
			if err == nil && isDir(k.Modules) && (!ok || compareReleases(k.Release, best.Release) > 0) {
				best, ok = k, true
			}
		}
	}
	return best, ok
}

func modulesDir(root, release string) string { return filepath.Join(root, "lib", "modules", release) }

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// compareReleases orders 6.1.0-9 before 6.1.0-54: numbers count as numbers.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		partA, restA := cutPart(a)
		partB, restB := cutPart(b)
		if c := comparePart(partA, partB); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return strings.Compare(a, b)
}

// cutPart takes a run of digits, or of anything else, off the front.
func cutPart(s string) (part, rest string) {
	digits := isDigit(s[0])
	end := strings.IndexFunc(s, func(r rune) bool { return (r >= '0' && r <= '9') != digits })
	if end < 0 {
		return s, ""
	}
	return s[:end], s[end:]
}

func comparePart(a, b string) int {
	if isDigit(a[0]) && isDigit(b[0]) {
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		if len(a) != len(b) {
			return len(a) - len(b)
		}
	}
	return strings.Compare(a, b)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// releaseOf reads which kernel a file is.
func releaseOf(image string) (string, error) {
	file, err := os.Open(image)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", &sandbox.Error{Class: sandbox.NotFound, Op: "kernel", Reason: image + " does not exist"}
	case errors.Is(err, fs.ErrPermission):
		return "", &sandbox.Error{Class: sandbox.Denied, Op: "kernel", Reason: image + " may not be read by this user",
			Remedy: "run `aether kernel install`, which fetches one for this user"}
	case err != nil:
		return "", err
	}
	defer file.Close()
	kind, release, err := identify(file)
	if err != nil {
		return "", err
	}
	if release == "" {
		_, release, _ = strings.Cut(filepath.Base(image), "-")
	}
	if kind == unknown || strings.ContainsAny(release, "/\x00") || release == ".." {
		return "", sandbox.Invalidf("kernel", "%s is no Linux kernel for %s", image, runtime.GOARCH)
	}
	return release, nil
}
