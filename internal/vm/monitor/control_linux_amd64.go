package monitor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"aether/internal/host/blocklayer"
	"aether/internal/host/guestmem"
	"aether/internal/host/jail"
	"aether/internal/host/launch"
	"aether/internal/vm"
)

const (
	// maxRequest bounds a line that the process is told, of which the longest has the words of
	// a kernel.
	maxRequest = 1 << 10
	// maxRights bounds the files that come with it.
	maxRights = 256
)

// serve does what the process is told, one line after another, and answers each with one:
// ok and what came of it, or what is the matter.
func (p *process) serve(control *net.UnixConn) error {
	buffer, rights := make([]byte, maxRequest), make([]byte, maxRights)
	for {
		n, r, _, _, err := control.ReadMsgUnix(buffer, rights)
		if err != nil || n == 0 {
			return nil // whoever started it is gone
		}
		answer, err := p.do(string(bytes.TrimSuffix(buffer[:n], []byte("\n"))), rights[:r])
		answer = strings.TrimSpace("ok " + answer)
		if err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		if _, err := io.WriteString(control, answer+"\n"); err != nil {
			return nil
		}
	}
}

var (
	errNone    = errors.New("there is no machine yet")
	errSome    = errors.New("there is a machine already")
	errPaused  = errors.New("the machine is paused")
	errRunning = errors.New("the machine is not paused")
	errUnknown = errors.New("it is told what it does not know")
)

func (p *process) do(request string, rights []byte) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var files []*os.File
	if len(rights) > 0 {
		var err error
		if files, err = launch.ReceivedAll(rights); err != nil {
			return "", err
		}
	}
	if !p.keeps(request, len(files)) {
		defer closeAll(files)
	}
	switch {
	case request == "hello":
		return "", nil
	case begins(request, bootWord):
		return "", p.boot(request, files)
	case request == "disk":
		return "", p.openDisk(files)
	case begins(request, loadWord):
		return "", p.load(request, files)
	case p.machine == nil:
		return "", errNone
	case request == "fork" && len(files) != p.forkFiles():
		return "", errUnknown
	case request == "fork":
		return p.fork(files)
	case request == "flatten" && len(files) == 1:
		return p.flatten(files[0])
	case request == "pause" && p.paused:
		return "", errPaused
	case request == "pause":
		p.paused = true
		return "", p.machine.Pause()
	case !p.paused:
		return "", errRunning
	case request == "resume":
		p.paused = false
		p.machine.Resume()
		return "", nil
	case request == "save" && len(files) == 2:
		return "", p.save(files[0], files[1], false)
	case request == "save over" && len(files) == 2:
		return "", p.save(files[0], files[1], true)
	}
	return "", errUnknown
}

// keeps says whether a request takes its files over.
func (p *process) keeps(request string, files int) bool {
	switch {
	case request == "disk" || begins(request, bootWord) || begins(request, loadWord):
		return true
	case request == "fork":
		return p.machine != nil && files == p.forkFiles()
	case request == "flatten":
		return p.machine != nil && files == 1
	}
	return false
}

// forkFiles is how many files a fork needs: the state, the pagemap and a layer for the memory,
// and of a machine with a writable disk what it has written, for reading, and a file for what
// it writes from now on.
func (p *process) forkFiles() int {
	if p.writable != nil {
		return 5
	}
	return 3
}

// openDisk takes the writable disk of a machine that is to be made: its base, layers, and the
// uppermost.
func (p *process) openDisk(files []*os.File) (err error) {
	if p.machine != nil || p.writable != nil || len(files) < 2 {
		closeAll(files)
		return errUnknown
	}
	last := len(files) - 1
	p.writable, err = blocklayer.Open(files[0], files[1:last], files[last])
	return err
}

// save writes the state of a machine that is paused, with all of its memory or with what of it is
// over the first of the files that it was handed, which whoever asks keeps; pages is the pagemap of
// this process. Of its writable disk whoever asks has the files, of which the uppermost says what it
// holds.
func (p *process) save(to, pages *os.File, over bool) error {
	if p.writable != nil {
		if err := p.writable.Note(); err != nil {
			return err
		}
	}
	var runs, extents []guestmem.Extent
	var err error
	if over {
		runs, extents, err = p.layers.Beyond(pages)
	} else {
		runs, err = p.layers.Filled(pages)
	}
	if err != nil {
		return err
	}
	return p.machine.Save(to, runs, extents)
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// fork writes the state of the machine, whose memory is in files afterwards that nobody
// needs to change any more: those of before and the layer, of which the answer says which
// are left, after for how many nanoseconds the machine stood still. The files are as forkFiles
// says.
func (p *process) fork(files []*os.File) (string, error) {
	began := time.Now()
	if !p.paused {
		if err := p.machine.Pause(); err != nil {
			closeAll(files)
			return "", err
		}
	}
	kept, lost, err := p.freeze(files)
	if lost {
		p.over <- err // the machine stands still, for good
		return "", err
	}
	if !p.paused {
		p.machine.Resume()
	}
	return list(append([]int{int(time.Since(began).Nanoseconds())}, kept...)), err
}

// flatten has one layer hold what all do, while the machine runs, and answers which files are left.
func (p *process) flatten(layer *os.File) (string, error) {
	p.mu.Unlock() // nobody else has the layers, and connections are not to wait
	defer p.mu.Lock()
	kept, err := p.layers.Flatten(layer)
	if err != nil {
		return "", errors.Join(err, layer.Close())
	}
	return list(kept), nil
}

func list(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, " ")
}

// freeze has the machine, which stands still, go on over files of which nobody changes those of
// before, and writes its state. It is lost if it cannot, or if its files are no more those that
// whoever asked knows.
func (p *process) freeze(files []*os.File) (kept []int, lost bool, err error) {
	state, pages, layer, disk := files[0], files[1], files[2], files[3:]
	defer closeAll(files[:2])
	if p.writable != nil {
		if err := p.writable.Prepare(disk[1]); err != nil {
			closeAll(files[2:])
			return nil, false, err
		}
	}
	written, err := p.machine.Written()
	if err != nil { // and what was noted until now is gone
		closeAll(files[2:])
		return nil, true, err
	}
	if kept, err = p.layers.Freeze(written, pages, layer); err != nil {
		closeAll(files[2:])
		return nil, errors.Is(err, guestmem.ErrLost), err
	}
	if err := p.machine.Watch(); err != nil {
		return nil, true, err
	}
	if p.writable != nil {
		p.writable.Freeze(disk[0], disk[1])
	}
	err = p.machine.SaveBeside(state, p.layers.Extents())
	return kept, err != nil, err
}

// Words that begin a request. Both go on with how long the files are at most that the process
// writes; bootWord with how many mebibytes of memory and how many processors the machine has, and
// the words of its kernel.
const (
	bootWord = "boot"
	loadWord = "load"
	// lentWord ends a request for a machine whose memory is not to be in the file of it that it is
	// handed, once it is forked.
	lentWord = "lent"
)

func begins(request, word string) bool { return strings.HasPrefix(request, word+" ") }

// bootFiles is how many files a boot needs: the disk, a file for the memory, the kernel and
// the initramfs.
const bootFiles = 4

// boot makes a machine with a kernel in it, and lets it run.
func (p *process) boot(request string, files []*os.File) error {
	most, memory, cpus, words, err := parseBoot(request)
	if err == nil && p.machine != nil {
		err = errSome
	}
	if err == nil && len(files) != bootFiles {
		err = errUnknown
	}
	if err == nil {
		err = jail.BoundFiles(most)
	}
	if err != nil {
		closeAll(files)
		return err
	}
	defer closeAll(files[2:])
	kernel, err := sizedFile(files[2])
	if err != nil {
		return err
	}
	initramfs, err := sizedFile(files[3])
	if err != nil {
		return err
	}
	if p.layers, err = guestmem.NewLayers(files[1], memory); err != nil {
		return err
	}
	machine, err := p.make(p.layers.Memory, false, cpus, files[0])
	if err != nil {
		return err
	}
	if err := machine.Boot(kernel, initramfs, words); err != nil {
		return err
	}
	p.start(machine)
	return nil
}

func parseBoot(request string) (most, memory int64, cpus int, words string, err error) {
	const mebibyte, mostMemory = 1 << 20, 1 << 20 // MiB
	parts := strings.SplitN(request, " ", 5)
	if len(parts) != 5 {
		return 0, 0, 0, "", errUnknown
	}
	most, err = strconv.ParseInt(parts[1], 10, 64)
	if err == nil {
		memory, err = strconv.ParseInt(parts[2], 10, 64)
	}
	if err == nil {
		cpus, err = strconv.Atoi(parts[3])
	}
	if err != nil || most < 1 || memory < 1 || memory > mostMemory {
		return 0, 0, 0, "", errUnknown
	}
	return most, memory * mebibyte, cpus, parts[4], nil
}

// load makes a machine out of a state, the disk, and the files of its memory if that is not in
// the state, and lets it go on.
func (p *process) load(request string, files []*os.File) error {
	number, lent := strings.CutSuffix(strings.TrimPrefix(request, loadWord+" "), " "+lentWord)
	most, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil || most < 1:
		err = errUnknown
	case p.machine != nil:
		err = errSome
	case len(files) < 2:
		err = vm.ErrState
	default:
		err = jail.BoundFiles(most)
	}
	if err != nil {
		closeAll(files)
		return err
	}
	saved, err := vm.Open(files[0])
	if err != nil {
		return err
	}
	if p.layers, err = saved.Map(files[2:], lent); err != nil {
		return err
	}
	machine, err := p.make(p.layers.Memory, true, saved.CPUs(), files[1])
	if err != nil {
		return err
	}
	if err := machine.Restore(saved); err != nil {
		return err
	}
	p.start(machine)
	machine.Again()
	return nil
}

// connectAll takes the connections to the guest that the process is handed.
func (p *process) connectAll(guest *net.UnixConn) {
	one, rights := make([]byte, 1), make([]byte, maxRequest)
	for {
		n, r, _, _, err := guest.ReadMsgUnix(one, rights)
		if err != nil || n == 0 {
			return
		}
		if file, err := launch.Received(rights[:r]); err == nil {
			go p.connect(file)
		}
	}
}

// askTime is how long it may take until somebody says where a connection is to go.
const askTime = 5 * time.Second

func (p *process) connect(file *os.File) {
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return
	}
	socket, ok := conn.(*net.UnixConn)
	port, err := asked(conn)
	p.mu.Lock()
	machine := p.machine
	p.mu.Unlock()
	if !ok || err != nil || machine == nil {
		_ = conn.Close() // which says it
		return
	}
	_ = machine.Connect(socket, port, func(own uint32) []byte { // closed if it is refused
		return []byte("OK " + strconv.FormatUint(uint64(own), 10) + "\n")
	})
}

// asked reads which port a connection is to, byte by byte: what follows is the guest's.
func asked(conn net.Conn) (uint32, error) {
	if err := conn.SetReadDeadline(time.Now().Add(askTime)); err != nil {
		return 0, err
	}
	var line []byte
	for b := make([]byte, 1); len(line) < maxRequest; line = append(line, b[0]) {
		if _, err := io.ReadFull(conn, b); err != nil {
			return 0, err
		}
		if b[0] == '\n' {
			break
		}
	}
	number, found := strings.CutPrefix(string(line), "CONNECT ")
	port, err := strconv.ParseUint(number, 10, 32)
	if !found || err != nil {
		return 0, errors.Join(errors.New("it says no port"), err)
	}
	return uint32(port), conn.SetReadDeadline(time.Time{})
}
