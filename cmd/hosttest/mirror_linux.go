package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"

	"aether/sandbox"
)

// mirrorVariable names Debian's archive where the host's own apt has another, or
// none.
const mirrorVariable = "AETHER_DEBIAN_MIRROR"

// mirror is the archive that this host itself is installed from.
func mirror(ctx context.Context) (string, error) {
	if named := os.Getenv(mirrorVariable); named != "" {
		return named, nil
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", noMirror(err)
	}
	codename, ok := debianCodename(string(release))
	if !ok {
		return "", noMirror(nil)
	}
	targets, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)").Output()
	if err != nil {
		return "", noMirror(err)
	}
	if found := mainArchive(string(targets), codename); found != "" {
		return found, nil
	}
	return "", noMirror(nil)
}

func noMirror(err error) error {
	return &sandbox.Error{Class: sandbox.Unavailable, Op: "hosttest", Reason: "this host's apt names no archive of Debian", Remedy: mirrorVariable + "=http://HOST/debian", Err: err}
}

// debianCodename reads os-release. Distributions made of Debian have archives of
// their own.
func debianCodename(release string) (codename string, ok bool) {
	for scan := bufio.NewScanner(strings.NewReader(release)); scan.Scan(); {
		key, value, _ := strings.Cut(scan.Text(), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			ok = value == "debian"
		case "VERSION_CODENAME":
			codename = value
		}
	}
	return codename, ok && codename != ""
}

// mainArchive is where the release itself comes from, in lines of an address, a
// release, a component and whose it is, which is unknown before apt's lists are
// fetched. Updates and security are other releases.
func mainArchive(targets, codename string) string {
	for scan := bufio.NewScanner(strings.NewReader(targets)); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) < 3 || fields[1] != codename || fields[2] != "main" || strings.HasPrefix(fields[0], "-") {
			continue
		}
		if len(fields) == 3 || len(fields) == 4 && fields[3] == "Debian" {
			return fields[0]
		}
	}
	return ""
}
