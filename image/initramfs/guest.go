package initramfs

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"aether/image/kernel"
	"aether/sandbox"
)

// Guest is the archive of a machine: its init and the modules that it loads.
type Guest struct {
	// Archive is the same for every machine. What differs follows it: see Config.
	Archive []byte
	// Modules are the files of the modules in the archive, in the order of their
	// loading.
	Modules []string
}

// maxInit bounds the program that is put into every machine's memory.
const maxInit = 64 << 20

// Build makes the archive of a kernel, a static program that is its init, and the
// modules of those names with all that they need. Errors: NotFound for a program
// or module that is not there.
func Build(ctx context.Context, k kernel.Kernel, init string, modules []string) (*Guest, error) {
	program, err := os.ReadFile(init)
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.NotFound, Op: "initramfs", Reason: "the init of machines cannot be read", Err: err}
	}
	if len(program) > maxInit || !bytes.HasPrefix(program, []byte("\x7fELF")) {
		return nil, sandbox.Invalidf("guest", "%s is no program, or over %d bytes", init, maxInit)
	}
	list, err := k.Load(ctx, modules...)
	if err != nil {
		return nil, err
	}
	g := &Guest{}
	var out bytes.Buffer
	w := NewWriter(&out)
	// The kernel opens it for init, before init could make it.
	w.Device("dev/console", 0o600, 5, 1)
	w.File("init", 0o755, program)
	for i, module := range list {
		name := fmt.Sprintf("modules/%02d-%s.ko", i, module.Name)
		w.File(name, 0o644, module.Data)
		g.Modules = append(g.Modules, "/"+name)
	}
	err = w.Close()
	g.Archive = out.Bytes()
	return g, err
}

// Config is an archive of one file, to follow another archive.
func Config(name string, content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := NewWriter(&out)
	w.File(name, 0o600, content)
	err := w.Close()
	return out.Bytes(), err
}
