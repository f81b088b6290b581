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

	"aether/internal/host/launch"
	"aether/internal/vm"
)

// maxRequest bounds a line that the process is told, of which the longest is a word.
const maxRequest = 64

// serve does what the process is told, one line after another, and answers each with one:
// ok, or what is the matter.
func (p *process) serve(control *net.UnixConn) error {
	buffer, rights := make([]byte, maxRequest), make([]byte, maxRequest)
	for {
		n, r, _, _, err := control.ReadMsgUnix(buffer, rights)
		if err != nil || n == 0 {
			return nil // whoever started it is gone
		}
		answer := "ok\n"
		if err := p.do(string(bytes.TrimSuffix(buffer[:n], []byte("\n"))), rights[:r]); err != nil {
			answer = strings.ReplaceAll(err.Error(), "\n", "; ") + "\n"
		}
		if _, err := io.WriteString(control, answer); err != nil {
			return nil
		}
	}
}

var (
	errNone    = errors.New("there is no machine yet")
	errSome    = errors.New("there is a machine already")
	errPaused  = errors.New("the machine is paused")
	errRunning = errors.New("the machine is not paused")
)

func (p *process) do(request string, rights []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var file *os.File
	if len(rights) > 0 {
		var err error
		if file, err = launch.Received(rights); err != nil {
			return err
		}
		if request != "load" { // which keeps it
			defer file.Close()
		}
	}
	switch {
	case request == "hello":
		return nil
	case request == "load":
		return p.load(file)
	case p.machine == nil:
		return errNone
	case request == "pause" && p.paused:
		return errPaused
	case request == "pause":
		p.paused = true
		return p.machine.Pause()
	case !p.paused:
		return errRunning
	case request == "resume":
		p.paused = false
		p.machine.Resume()
		return nil
	case request == "save" && file != nil:
		return p.machine.Save(file)
	}
	return errors.New("it is told what it does not know")
}

// load makes a machine out of a state, and lets it go on.
func (p *process) load(file *os.File) error {
	if p.machine != nil {
		return errSome
	}
	if file == nil {
		return vm.ErrState
	}
	saved, err := vm.Open(file)
	if err != nil {
		return err
	}
	memory, err := saved.Map()
	if err != nil {
		return err
	}
	if err := p.make(memory.Memory, saved.CPUs()); err != nil {
		return err
	}
	if err := p.machine.Restore(saved); err != nil {
		return err
	}
	p.start()
	p.machine.Again()
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
