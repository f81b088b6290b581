package vmm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"aether/internal/host/launch"
	"aether/internal/host/storedir"
)

// A template is a machine that was booted once, up to its guest service, and
// saved before anything of a sandbox was known. Machines that go on from it map
// its memory, of which they share every page that they do not change.
type template struct {
	// memory is sealed: a monitor that a guest has taken over cannot change what the
	// others start from.
	memory, state *os.File
	// dir is where it is kept, and base the memory there; nil is that snapshots have no use for it.
	dir  string
	base *base
}

func (t *template) close() error {
	t.base.close()
	return errors.Join(t.memory.Close(), t.state.Close())
}

// again opens what a template has once more, for one user of it: each reads the
// state from its own place.
func (t *template) again() (*template, error) {
	memory, err := launch.Reopen(t.memory)
	if err != nil {
		return nil, err
	}
	state, err := launch.Reopen(t.state)
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	base, err := t.base.again()
	if err != nil {
		return nil, errors.Join(err, memory.Close(), state.Close())
	}
	return &template{memory, state, t.dir, base}, nil
}

// mold is what a machine must have in common with a template to go on from it.
type mold struct {
	// HostBoot is one life of the host's kernel: processors, clocks and what KVM
	// can do stay as they are within one.
	HostBoot string   `json:"host_boot"`
	Program  string   `json:"program"`
	Kernel   string   `json:"kernel"`
	Init     string   `json:"init"`
	Hardware Hardware `json:"hardware"`
	// Arguments are those of a machine that goes on: its devices and processor.
	Arguments []string `json:"arguments"`
	// KernelArgs are the words of a kernel that its monitor is told them by.
	KernelArgs string `json:"kernel_args,omitempty"`
}

func (e *engine) mold(b bootable, hw Hardware) (m mold, err error) {
	m = mold{Kernel: b.stamps[0], Init: b.stamps[1], Hardware: hw, KernelArgs: e.system.KernelArgs,
		Arguments: e.system.Inherit(hw, number([]string{Socket, Port, Disk, Memory}, firstDescriptor))}
	if m.Program, err = stampOf(e.program.path); err != nil {
		return m, err
	}
	m.HostBoot, err = hostBoot()
	return m, err
}

var hostBoot = sync.OnceValues(func() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
})

// name is that of its template.
func (m mold) name() (string, error) {
	text, err := json.Marshal(m)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16]), err
}

// template gives the template of such machines: the one at hand, else the one that
// an earlier program made, else a new one. The caller closes it.
func (e *engine) template(ctx context.Context, hw Hardware) (*template, error) {
	b, err := e.bootable()
	if err != nil {
		return nil, err
	}
	of, err := e.mold(b, hw)
	if err != nil {
		return nil, err
	}
	name, err := of.name()
	if err != nil {
		return nil, err
	}
	if t, err := e.templates.again(name); t != nil || err != nil {
		return t, err
	}
	work, release, err := storedir.ScratchNamed(ctx, templateWork(e.opts), name)
	if err != nil {
		return nil, err
	}
	t, err := e.templateIn(ctx, work, b, of)
	return t, errors.Join(err, release())
}

// templateIn makes the template, if need be, in a directory of its name that only we
// have.
func (e *engine) templateIn(ctx context.Context, work string, b bootable, of mold) (*template, error) {
	name := filepath.Base(work)
	if t, err := e.templates.again(name); t != nil || err != nil {
		return t, err // another made it while we waited
	}
	dir := filepath.Join(templatesDir(e.opts), name)
	t, err := loadTemplate(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = e.makeTemplate(ctx, work, dir, b, of); err == nil {
			t, err = loadTemplate(ctx, dir)
		}
	}
	if err != nil {
		return nil, err
	}
	return e.templates.keep(name, t)
}
