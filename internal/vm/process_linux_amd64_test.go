package vm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/internal/host/blocklayer"
	"aether/internal/host/jail"
	"aether/internal/host/launch"
	"aether/internal/host/spawn"
	"aether/internal/vm/vmtest"
)

// vmmProcess is aether-vmm in its jail, with its own list of system calls.
type vmmProcess struct {
	t       *testing.T
	child   *spawn.Process
	control *net.UnixConn
	answers *bufio.Reader
	said    *os.File
	disk    *os.File // of its root file system
	memory  *os.File // of one that boots
	guest   *net.UnixConn
	// messages are what it says of itself.
	messages *os.File
}

func TestMain(m *testing.M) {
	code := m.Run()
	if builtVMM != "" {
		os.RemoveAll(filepath.Dir(builtVMM))
	}
	os.Exit(code)
}

// builtVMM is aether-vmm, once a test has needed it.
var builtVMM string

func buildVMM(t *testing.T) *os.File {
	t.Helper()
	if builtVMM == "" {
		dir, err := os.MkdirTemp("", "aether-vmm-")
		if err != nil {
			t.Fatal(err)
		}
		builtVMM = filepath.Join(dir, "aether-vmm")
		build := exec.Command("go", "build", "-o", builtVMM, "aether/cmd/aether-vmm")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	exe, err := os.Open(builtVMM)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { exe.Close() })
	return exe
}

// testMemory is what the machines have.
const testMemory = 4 << 20

// testDisk is how long their disks are.
const testDisk = 1 << 20

// startVMM starts a process, whose machine boots a kernel, or none yet; with a writable disk, if
// its base and its upper are given.
func startVMM(t *testing.T, exe *os.File, kernel []byte, writable ...*os.File) *vmmProcess {
	t.Helper()
	device, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no KVM here: %v", err)
	}
	defer device.Close()
	p := &vmmProcess{t: t}
	control, controlEnd, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer controlEnd.Close()
	guest, guestEnd, err := launch.SocketPair()
	if err != nil {
		t.Fatal(err)
	}
	defer guestEnd.Close()
	t.Cleanup(func() { guest.Close() })
	said, console, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p.memory, p.messages, p.disk = memoryFile(t, testMemory), memoryFile(t, 0), memoryFile(t, testDisk)
	args := []string{"aether-vmm", "-control", "3", "-guest", "4", "-kvm", "5"}
	files := []*os.File{null, console, p.messages, controlEnd, guestEnd, device}
	p.control, p.answers, p.said, p.guest = control, bufio.NewReader(control), said, guest
	if p.child, err = jail.Start(jail.Program{Exe: exe, Args: args, Files: files, ID: 64322, Alone: true}); err != nil {
		t.Fatal(err)
	}
	if len(writable) == 2 {
		p.send("disk", writable...)
		p.want("disk", "ok")
	}
	if kernel != nil {
		file, err := launch.SealedFile("kernel", kernel)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p.send("boot 33554432 4 1 quiet", p.disk, p.memory, file, null)
		// A guest that ends at once may end before the answer.
		if got, err := p.answers.ReadString('\n'); err == nil && got != "ok\n" {
			t.Fatalf("boot: %q", got)
		}
	}
	return p
}

// fileLimit is how long its files may be.
func (p *vmmProcess) fileLimit() string {
	p.t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.child.Pid()) + "/limits")
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "Max file size")
	return strings.Fields(rest + " none")[0]
}

// load has the process go on from a state, with the files of the memory if that is not in it.
func (p *vmmProcess) load(state *os.File, memory ...*os.File) {
	p.t.Helper()
	p.send("load 33554432", append([]*os.File{state, p.disk}, memory...)...)
}

// tell wants what the process is told to be answered so.
func (p *vmmProcess) tell(word string, file *os.File, want string) {
	p.t.Helper()
	var files []*os.File
	if file != nil {
		files = []*os.File{file}
	}
	p.send(word, files...)
	p.want(word, want)
}

// want wants the next answer to be this one.
func (p *vmmProcess) want(word, want string) {
	p.t.Helper()
	if got, err := p.answers.ReadString('\n'); err != nil || got != want+"\n" {
		p.t.Fatalf("%s: %q, %v", word, got, err)
	}
}

func (p *vmmProcess) send(word string, files ...*os.File) {
	p.t.Helper()
	var rights []byte
	if len(files) > 0 {
		rights = launch.Rights(files...)
	}
	if _, _, err := p.control.WriteMsgUnix([]byte(word+"\n"), rights, nil); err != nil {
		p.t.Fatalf("%s: %v", word, err)
	}
}

// ended wants the process to end well, having said something.
func (p *vmmProcess) ended(said string) {
	p.t.Helper()
	text, err := io.ReadAll(p.said)
	if err != nil || string(text) != said {
		p.t.Errorf("it said %q, %v", text, err)
		_ = p.child.Signal(syscall.SIGKILL) // it may have ended
	}
	if status, err := p.child.Wait(); err != nil || status.Code != 0 || status.Signal != 0 {
		p.t.Errorf("it ended with %+v, %v: %s", status, err, p.told())
	}
}

// told is what the process says of itself.
func (p *vmmProcess) told() string {
	text := make([]byte, 4096)
	n, err := p.messages.ReadAt(text, 0)
	if err != nil && err != io.EOF {
		p.t.Error(err)
	}
	return string(text[:n])
}

// TestProcess: a machine runs, is saved and goes on in processes that can make few system
// calls, and that end with who started them.
func TestProcess(t *testing.T) {
	exe := buildVMM(t)
	code := slicesOf([]byte{0xff, 0x05, 0, 0, 0x30, 0, 0x80, 0x3d, 0x10, 0, 0x30, 0, 0, 0x74, 0xf1}, printed("on\n"), switchOff)
	kernel, err := io.ReadAll(kernelOf(code))
	if err != nil {
		t.Fatal(err)
	}
	source := startVMM(t, exe, kernel)
	state, err := launch.MemoryFile("state", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	source.tell("hello", nil, "ok")
	if got := source.fileLimit(); got != "33554432" {
		t.Errorf("its files may have %s bytes", got)
	}
	source.save(state, "the machine is not paused")
	source.tell("load 33554432", state, "there is a machine already")
	source.tell("pause", nil, "ok")
	source.tell("pause", nil, "the machine is paused")
	mark := func(v byte) { // by which a machine knows itself
		if _, err := source.memory.WriteAt([]byte{v}, 0x300010); err != nil {
			t.Fatal(err)
		}
	}
	mark(1)
	held := blocksOf(t, source.memory)
	source.save(state, "ok")
	if now := blocksOf(t, source.memory); now != held {
		t.Errorf("by being saved its memory has grown from %d blocks to %d", held, now)
	}
	mark(0)
	source.tell("resume", nil, "ok")
	source.tell("nonsense", nil, "the machine is not paused")

	child := startVMM(t, exe, nil)
	for _, request := range []string{"boot 1 4 1 quiet", "boot 1 4 1", "boot 0 4 1 quiet", "boot 1 0 1 quiet", "boot 1 4 x quiet", "load 0", "load x", "boot"} {
		child.tell(request, state, map[bool]string{true: "there is no machine yet", false: "it is told what it does not know"}[request == "boot"])
	}
	if got := child.fileLimit(); got != "unlimited" {
		t.Errorf("of one without a machine %s", got)
	}
	child.tell("pause", nil, "there is no machine yet")
	child.tell("load 33554432", nil, ErrState.Error())
	child.tell("load 33554432", state, ErrState.Error()) // without a disk
	child.load(state)                                    // it may end before it answers
	child.ended("on\n")

	source.control.Close()
	source.ended("")

	if off := startVMM(t, exe, mustRead(kernelOf(slicesOf(printed("one\n"), switchOff)))); off != nil {
		off.ended("one\n")
	}
}

// save has the state of the machine written to a file.
func (p *vmmProcess) save(to *os.File, want string) {
	p.t.Helper()
	pages := p.pages()
	defer pages.Close()
	p.send("save", to, pages)
	p.want("save", want)
}

// pages opens the pagemap of the process.
func (p *vmmProcess) pages() *os.File {
	p.t.Helper()
	pages, err := os.Open("/proc/" + strconv.Itoa(p.child.Pid()) + "/pagemap")
	if err != nil {
		p.t.Fatal(err)
	}
	return pages
}

// blocksOf is how much a file in memory holds.
func blocksOf(t *testing.T, file *os.File) int64 {
	t.Helper()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Blocks
}

// fork has the process fork its machine, and gives the state and which of its files and a
// layer are left, sealed.
func (p *vmmProcess) fork(files []*os.File, disk ...*os.File) (state *os.File, left []*os.File) {
	p.t.Helper()
	pages := p.pages()
	defer pages.Close()
	state = memoryFile(p.t, 0)
	all := append(slices.Clone(files), memoryFile(p.t, testMemory))
	p.send("fork", append([]*os.File{state, pages, all[len(files)]}, disk...)...)
	left = p.left(all, 2)
	if last := left[len(left)-1]; len(files) == 1 || last != files[len(files)-1] {
		if err := spawn.Seal(p.t.Context(), last); err != nil {
			p.t.Fatal(err)
		}
	}
	return state, left
}

// left reads which of the files are left, after so many words of an answer.
func (p *vmmProcess) left(all []*os.File, before int) (left []*os.File) {
	p.t.Helper()
	answer, err := p.answers.ReadString('\n')
	words := strings.Fields(answer)
	if err != nil || len(words) <= before || words[0] != "ok" {
		p.t.Fatalf("%q, %v", answer, err)
	}
	for _, word := range words[before:] {
		n, err := strconv.Atoi(word)
		if err != nil || n >= len(all) {
			p.t.Fatalf("of %d files are left %q", len(all), answer)
		}
		left = append(left, all[n])
	}
	return left
}

// flatten has the process put what is in all files but the first into one, and gives what is left,
// sealed.
func (p *vmmProcess) flatten(files []*os.File) []*os.File {
	p.t.Helper()
	layer := memoryFile(p.t, testMemory)
	p.send("flatten", layer)
	left := p.left(append(slices.Clone(files), layer), 1)
	if len(files) == 1 { // there is nothing over the first
		if len(left) != 1 || left[0] != files[0] {
			p.t.Errorf("%d files are left of one", len(left))
		}
		return left
	}
	if len(left) > 2 || left[len(left)-1] != layer {
		p.t.Errorf("%d files are left", len(left))
	}
	if err := spawn.Seal(p.t.Context(), layer); err != nil {
		p.t.Fatal(err)
	}
	return left
}

func memoryFile(t *testing.T, size int64) *os.File {
	t.Helper()
	file, err := launch.MemoryFile("file", size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// TestProcessForks: a machine that runs is forked again and again, and its child too. What
// was handed on can be sealed, and who goes on from it goes on from there, also once its layers
// were made one.
func TestProcessForks(t *testing.T) {
	exe := buildVMM(t)
	// It counts at 0x300000, and ends by itself when it finds something at 0x300010.
	code := slicesOf([]byte{0xff, 0x05, 0, 0, 0x30, 0, 0x80, 0x3d, 0x10, 0, 0x30, 0, 0, 0x74, 0xf1}, printed("on\n"), switchOff)
	of := startVMM(t, exe, mustRead(kernelOf(code)))
	files := []*os.File{of.memory}
	var state *os.File
	for generation := range 4 {
		first := counted(t, files)
		deadline := time.Now().Add(patience)
		for state, files = of.fork(files); counted(t, files) <= first; state, files = of.fork(files) {
			if time.Now().After(deadline) {
				t.Fatalf("generation %d does not count on from %d", generation, first)
			}
			files = of.flatten(files)
		}
		child := startVMM(t, exe, nil)
		child.load(state, files...)
		child.want("load", "ok")
		of.control.Close()
		of.ended("")
		of = child
	}
	// One whose memory is another on purpose: it finds what it waits for.
	state, files = of.fork(files)
	last := len(files) - 1
	content := make([]byte, testMemory)
	if _, err := files[last].ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	content[0x300010] = 1
	changed := memoryFile(t, testMemory)
	if _, err := changed.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	child := startVMM(t, exe, nil)
	child.load(state)
	child.want("load", ErrState.Error())
	child.control.Close()
	child.ended("")
	child = startVMM(t, exe, nil)
	child.load(state, append(slices.Clone(files[:last]), changed)...)
	child.ended("on\n")
	of.tell("fork", state, "it is told what it does not know")
	of.control.Close()
	of.ended("")
}

// TestGeneration: a machine that goes on elsewhere, from a fork or from a file, finds that it is
// another one than it was. The one that it was copied from does not.
func TestGeneration(t *testing.T) {
	exe := buildVMM(t)
	var code vmtest.Code
	code.AwaitCopy(0x300000)
	code.Print("another\n")
	code.Off()
	source := startHostile(t, exe, &code)
	source.awaitCount()
	var id [2 * generationSize]byte
	if _, err := source.memory.ReadAt(id[:], generationAt); err != nil || string(id[:4]) == "\x00\x00\x00\x00" || string(id[generationSize:]) != strings.Repeat("\x00", generationSize) {
		t.Errorf("its generation is %x, %v", id, err)
	}
	saved := memoryFile(t, 0)
	source.tell("pause", nil, "ok")
	source.save(saved, "ok")
	source.tell("resume", nil, "ok")
	state, files := source.fork([]*os.File{source.memory})
	for _, from := range [][]*os.File{{saved}, append([]*os.File{state}, files...)} {
		child := startVMM(t, exe, nil)
		child.load(from[0], from[1:]...)
		child.ended("another\n")
	}
	source.control.Close()
	source.ended("")
}

// newLayer is the file of what a machine writes to its disk, for writing and for reading.
func newLayer(t *testing.T) (write, read *os.File) {
	t.Helper()
	write, read, err := blocklayer.New(t.TempDir(), testDisk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { write.Close(); read.Close() })
	return write, read
}

// TestWritableDisk: what a machine writes to its disk is there for the copies of it, each of which
// goes on alone, and the process has no descriptor any more by which what they share could be
// changed.
func TestWritableDisk(t *testing.T) {
	exe := buildVMM(t)
	var code vmtest.Code
	code.Put(8, 0x11111111)
	code.Put(9, 0x22222222)
	code.AwaitCopy(0x300000)
	code.WantPut(8, 0x11111111)
	code.WantPut(9, 0x22222222)
	code.WantPut(1, 0)
	code.Put(8, 0x33333333)
	code.WantPut(8, 0x33333333)
	code.Print("kept\n")
	code.Off()
	base := memoryFile(t, testDisk)
	write, read := newLayer(t)
	source := startVMM(t, exe, code.Kernel(), base, write)
	write.Close()
	source.awaitCount()
	if blocklayer.Unchanging(read) == nil {
		t.Error("nobody can write to the disk of a machine that runs")
	}
	saved := memoryFile(t, 0)
	source.tell("pause", nil, "ok")
	source.save(saved, "ok")
	source.tell("resume", nil, "ok")
	merged := memoryFile(t, 0)
	if err := blocklayer.Merge(merged, base, []*os.File{read}); err != nil {
		t.Fatal(err)
	}
	next, _ := newLayer(t)
	state, files := source.fork([]*os.File{source.memory}, read, next)
	next.Close()
	if err := blocklayer.Unchanging(read); err != nil {
		t.Error(err)
	}
	for _, from := range []struct{ state, disk []*os.File }{
		{[]*os.File{saved}, []*os.File{merged}},
		{append([]*os.File{state}, files...), []*os.File{base, read}},
		{append([]*os.File{state}, files...), []*os.File{base, read}}, // which the other has not changed
	} {
		own, _ := newLayer(t)
		child := startVMM(t, exe, nil)
		child.send("disk", append(from.disk, own)...)
		child.want("disk", "ok")
		child.load(from.state[0], from.state[1:]...)
		child.ended("kept\n")
	}
	without := startVMM(t, exe, nil)
	without.tell("disk", base, "it is told what it does not know")
	without.load(saved)
	without.want("load", errDevices.Error())
	without.control.Close()
	without.ended("")
	source.control.Close()
	source.ended("")
}

// awaitCount waits until the machine has come as far as to count.
func (p *vmmProcess) awaitCount() {
	p.t.Helper()
	for deadline := time.Now().Add(patience); counted(p.t, []*os.File{p.memory}) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("it does not run")
		}
	}
}

// counted is how far a machine had come: the newest file that has the page knows.
func counted(t *testing.T, files []*os.File) (count uint32) {
	t.Helper()
	for _, file := range files {
		var b [4]byte
		if _, err := file.ReadAt(b[:], 0x300000); err != nil {
			t.Fatal(err)
		}
		count = max(count, binary.LittleEndian.Uint32(b[:]))
	}
	return count
}

func mustRead(r *bytes.Reader) []byte {
	b := make([]byte, r.Len())
	_, _ = r.ReadAt(b, 0) // all of it is there
	return b
}
