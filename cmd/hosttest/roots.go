package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// root is a root file system, made of Debian's packages alone.
type root struct {
	suite    string
	arch     string // as Go names it
	packages []string
	// backports adds the newest kernel of the suite's backports.
	backports bool
	// container adds an image for Docker.
	container bool
}

var (
	// boots is what a machine needs to boot and a README's reader to follow it.
	boots = []string{"systemd-sysv", "udev", "kmod", "python3"}
	// ofUsers is what gives an ordinary user a systemd of their own.
	ofUsers = []string{"dbus", "dbus-user-session", "libpam-systemd", "uidmap", "procps", "iproute2"}
	// ofTests is what tests run or compile when they find it.
	ofTests = []string{"gcc", "libc6-dev", "nodejs", "bubblewrap"}
	// ofDocker includes the host's half of a container's default rules.
	ofDocker = []string{"docker.io", "iptables", "apparmor", "ca-certificates"}

	bookworm    = root{suite: "bookworm", arch: "amd64", packages: slices.Concat(boots, ofUsers, ofTests, ofDocker), backports: true, container: true}
	trixie      = root{suite: "trixie", arch: "amd64", packages: slices.Concat(boots, ofUsers, ofTests, ofDocker, []string{"docker-cli"}), container: true}
	bookwormARM = root{suite: "bookworm", arch: "arm64", packages: slices.Concat(boots, ofUsers)}
)

// small is the root for a brief run: it boots, and no more.
func (r root) small() root { return root{suite: r.suite, arch: r.arch, packages: boots} }

// kernelPackage is Debian's kernel for virtual machines.
func (r root) kernelPackage() string { return "linux-image-cloud-" + architectures[r.arch].debian }

// kernels are the names of those that the root has.
func (r root) kernels() []string {
	if r.backports {
		return []string{stockKernel, backportsKernel}
	}
	return []string{stockKernel}
}

// name tells roots apart that are made of other packages or files, so that none
// is taken for what it no longer is.
func (r root) name() string {
	text, err := json.Marshal([]any{r.packages, r.backports, r.container, rootFiles, rootLinks, rootUnlinks, rootVersion})
	if err != nil {
		panic(err) // of strings and numbers
	}
	sum := sha256.Sum256(text)
	return r.suite + "-" + r.arch + "-" + hex.EncodeToString(sum[:6])
}

// architecture is how others name a processor, and the machine that has it.
type architecture struct {
	debian   string
	emulator string // QEMU's program
	from     string // the package of that
	binfmt   string // QEMU's name for programs of the kind, run by the host's kernel
	console  string
	machine  []string
}

var architectures = map[string]architecture{
	"amd64": {debian: "amd64", emulator: "qemu-system-x86_64", from: "qemu-system-x86", binfmt: "qemu-x86_64", console: "ttyS0", machine: []string{"-machine", "q35"}},
	"arm64": {debian: "arm64", emulator: "qemu-system-aarch64", from: "qemu-system-arm", binfmt: "qemu-aarch64", console: "ttyAMA0", machine: []string{"-machine", "virt"}},
}
