package vmm

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"

	"aether/guest/channel"
	"aether/internal/host/launch"
)

// wires are the descriptors that a monitor inherits. It needs no right to any path,
// and nothing is left of them once it has ended.
type wires struct {
	names []string   // of files
	files []*os.File // what the monitor inherits, in order
	own   []*os.File // those of them that nobody else closes
	state *os.File   // what it is to go on from, handed to it later

	monitor, port *net.UnixConn
	handed        bool // files go over monitor, and connections over the port, as descriptors
}

var _ workplace = (*wires)(nil)

func newWires(handed bool) (_ *wires, err error) {
	w := &wires{handed: handed}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.monitor, err = w.pair(Socket); err != nil {
		return w, err
	}
	if !handed {
		w.port, err = w.pair(Port)
		return w, err
	}
	if w.port, err = w.pair(Vsock); err != nil {
		return w, err
	}
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err == nil {
		w.adopt(device, KVM)
	}
	return w, err
}

// handOver makes a connection to the guest: the monitor is given its other end.
func (w *wires) handOver(context.Context) (net.Conn, error) {
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		return nil, err
	}
	_, _, err = w.port.WriteMsgUnix([]byte{0}, launch.Rights(theirs), nil)
	if err = errors.Join(err, theirs.Close()); err != nil {
		return nil, errors.Join(err, ours.Close())
	}
	return ours, nil
}

// pair makes a connection of which the monitor has the other end.
func (w *wires) pair(name string) (*net.UnixConn, error) {
	ours, theirs, err := launch.SocketPair()
	if err == nil {
		w.adopt(theirs, name)
	}
	return ours, err
}

// adopt shares a file and closes it once the monitor has it.
func (w *wires) adopt(file *os.File, name string) {
	w.own = append(w.own, file)
	_ = w.share(file, name) // never fails
}

// share implements workplace. The file stays the caller's, who keeps it open.
func (w *wires) share(file *os.File, name string) error {
	if filepath.Dir(name) == Saved {
		w.state = file
		return nil
	}
	w.names, w.files = append(w.names, name), append(w.files, file)
	return nil
}

// write implements workplace.
func (w *wires) write(name string, contents ...[]byte) error {
	file, err := launch.SealedFile(name, contents...)
	if err == nil {
		w.adopt(file, name)
	}
	return err
}

// arrange implements workplace. The files by which groups are entered come first:
// shells know numbers of one digit only.
func (w *wires) arrange(m *machine, l *invocation) {
	w.invoke(m.engine.system, m.hardware, l)
}

func (w *wires) invoke(s System, hw Hardware, l *invocation) {
	l.dir, l.files, l.closes, l.jailed = "/", w.files, w.own, w.handed
	first := firstDescriptor
	if !l.jailed {
		first += len(l.attach.Files)
	}
	l.argv = append(l.argv, s.Inherit(hw, number(w.names, first))...)
}

// begun has what is shared from now on be handed to the monitor, which runs.
func (w *wires) begun() { w.names, w.files, w.own = nil, nil, nil }

// named is a file that was shared, if it was.
func (w *wires) named(name string) *os.File {
	if n := slices.Index(w.names, name); n >= 0 {
		return w.files[n]
	}
	return nil
}

// number counts descriptors up from the first.
func number(names []string, first int) Descriptors {
	has := Descriptors{}
	for n, name := range names {
		has[name] = first + n
	}
	return has
}

// await implements workplace: the connection is there before the monitor is.
func (w *wires) await(context.Context, <-chan struct{}) error { return nil }

// connect implements workplace. There is one connection.
func (w *wires) connect(context.Context) (net.Conn, error) { return w.monitor, nil }

// line implements workplace.
func (w *wires) line() line {
	if w.handed {
		return newGuestDialer(w.handOver)
	}
	return &serialLine{port: w.port}
}

// boot implements workplace. A monitor that is handed nothing has done so already.
func (w *wires) boot(ctx context.Context, m *machine) error {
	if !w.handed {
		return m.monitor.Boot(ctx, m.hardware, m.engine.system.KernelArgs)
	}
	booter, ok := m.monitor.(Booter)
	if !ok {
		return errNoBooter
	}
	defer m.writable.handedOver()
	err := booter.BootFrom(ctx, m.hardware, BootFiles{KernelArgs: m.engine.system.KernelArgs, Root: m.disk, Memory: w.named(Memory), Kernel: w.named(Kernel), Initramfs: w.named(Initramfs),
		Writable: m.writable.handing(), Longest: m.longestFile()})
	closeAll(w.own)
	w.begun()
	return err
}

var errNoBooter = errors.New("its monitor cannot be handed what machines boot from")

// save implements workplace.
func (w *wires) save(ctx context.Context, m *machine, dir string, over bool) error {
	if err := w.saveTo(ctx, m, filepath.Join(dir, m.engine.system.SavedFiles[0]), State{Over: over}); err != nil {
		return err
	}
	if err := m.writable.save(filepath.Join(dir, writableFile)); err != nil {
		return err
	}
	return w.keepDisk(m, filepath.Join(dir, diskFile))
}

// keepDisk implements workplace.
func (w *wires) keepDisk(m *machine, name string) error { return linkOrCopy(m.disk, name) }

func (w *wires) saveTo(ctx context.Context, m *machine, name string, state State) (err error) {
	if w.handed {
		if state.Pages, err = m.openPages(); err != nil {
			return err
		}
		defer state.Pages.Close()
	}
	if state.File, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	return errors.Join(m.monitor.Save(ctx, state), state.File.Close())
}

// load implements workplace.
func (w *wires) load(ctx context.Context, m *machine) error {
	state := State{File: w.state, WithoutMemory: w.named(Memory) != nil, Memory: m.memory, Disk: m.writable.handing()}
	if len(m.memory) == 0 && m.base != nil {
		state.Memory, state.Lent = []*os.File{m.base.file}, true
	}
	if w.handed {
		state.Root, state.Longest = m.disk, m.longestFile()
	}
	defer m.writable.handedOver()
	return m.monitor.Load(ctx, state)
}

func (w *wires) close() error {
	closeAll(w.own)
	for _, conn := range []*net.UnixConn{w.monitor, w.port} {
		if conn != nil {
			conn.Close()
		}
	}
	return nil
}

// serialLine carries all connections over the one serial port of a guest.
type serialLine struct {
	port *net.UnixConn
	*channel.Dialer
}

var _ line = (*serialLine)(nil)

// await implements line. The service is met once.
func (s *serialLine) await(ctx context.Context, _ <-chan struct{}) (err error) {
	if s.Dialer == nil {
		s.Dialer, err = channel.Connect(ctx, s.port)
	}
	return err
}

// cut implements line: no monitor loses what goes over a serial port.
func (s *serialLine) cut() {}

// broken implements line.
func (s *serialLine) broken() <-chan struct{} { return s.Done() }

// Close implements guestagent.Dialer.
func (s *serialLine) Close() error {
	if s.Dialer == nil {
		return nil // the port is closed with its machine
	}
	return s.Dialer.Close()
}
