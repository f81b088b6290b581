package checkpoint

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"testing"

	"aether/internal/host/confine"
	"aether/internal/host/inroot"
	"aether/internal/host/ptrace"
	"aether/sandbox"

	"golang.org/x/sys/unix"
)

// someProcess has something of everything.
func someProcess() *Process {
	s := &State{Tracee: &Tracee{NSPid: 2, Name: "odd \xff name", syscallAt: 0x1000}, attributes: attributes{Auxv: make([]byte, 32), Umask: 0o22, Personality: 0x0040000, Stopped: true}}
	s.Brk, s.Subreaper, s.Membarriers = 0x5000, true, 1<<4
	s.Layout = [11]uint64{1, 2, 3}
	s.Limits[3] = unix.Rlimit{Cur: 1, Max: ^uint64(0)}
	s.Actions = map[int][32]byte{15: {1}}
	s.Intervals[1][0] = 7
	s.Queued = []ptrace.SignalInfo{{10}}
	s.PosixTimers = []posixTimer{{ID: 3, Clock: 1, Notify: 4, Signal: 14, Value: ^uint64(0), Thread: 2, Spec: [32]byte{9}}}
	s.vmas = []VMA{{Start: 0x1000, End: 0x3000, Read: true, Exec: true, Inode: 5, Name: "/lib/\xfe.so", flags: " gd "}, {Start: 0x4000, End: 0x6000, Write: true}}
	s.own = []run{{0x2000, 0x3000}, {0x4000, 0x6000}}
	s.threads = []*thread{{threadState: threadState{NSPid: 2, Name: "t", XState: make([]byte, minXState), Mask: ^uint64(0), Robust: [2]uint64{1, 2}, ClearTID: 3, AltStack: [24]byte{4},
		Queued: []ptrace.SignalInfo{{12}}, Regs: ptrace.Registers{Rip: 0x1000, Rax: ^uint64(0), Cs: userCode, Ss: userStack, Eflags: 0x246}, Rseq: ptrace.RSeq{Pointer: 1, Size: 32},
		scheduling: scheduling{Nice: 5, Policy: unix.SCHED_BATCH, Affinity: []byte{3}}}}}
	content := &Content{Memory: true, Name: "m\xff", Size: 1 << 40, Mode: 0o600, Data: []run{{4096, 8192}}}
	return &Process{HostPID: 99, State: s, Place: Place{Dir: "/tmp/\xff", Root: "/", Program: "/bin/x", UID: 1000, GID: 0, Groups: []uint32{1}, Group: 99, Session: 99},
		Descriptors: []Descriptor{
			{Number: 0, Kind: Pipe, Target: "pipe:[5]", Inode: 5, Capacity: 65536, Unread: []byte("\x00x"), Object: 1},
			{Number: 3, Kind: Memory, Target: "/memfd:m (deleted)", Content: content, Object: 2},
			{Number: 4, Kind: Socket, Target: "socket:[7]", Inode: 7, Object: 3, Socket: &SocketState{Family: unix.AF_UNIX, Type: unix.SOCK_STREAM, Inode: 7, Peer: 8,
				Local: []byte{1, 0, 0}, Shut: 1, Options: []SocketOption{{1, 2, []byte{1, 0, 0, 0}}}, Queue: [][]byte{{1}}}},
		},
		Mappings: []SharedMapping{{Start: 0x8000, Size: 0x1000, Protection: 3, Writable: true, Content: content}}}
}

// ids are those of cells that root runs.
var ids confine.Identity

// imageOf is the image of a process.
func imageOf(t testing.TB, p *Process) []byte {
	t.Helper()
	image := &Image{Machine: Machine{Kernel: "k"}}
	if err := image.add(p, -1, map[string]Stamp{p.State.vmas[0].Name: {1, 2}}); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// contents opens one content of a size, and none else.
func contents(t testing.TB, size int64) Files {
	return func(name string) (*os.File, error) {
		if name != contentName(0) {
			return nil, damaged("nothing is called %s", name)
		}
		return contentFile(t, size), nil
	}
}

func contentFile(t testing.TB, size int64) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestDecodeGivesWhatWasEncoded(t *testing.T) {
	p := someProcess()
	var image Image
	if err := json.Unmarshal(imageOf(t, p), &image); err != nil {
		t.Fatal(err)
	}
	c := &Checkpoint{Shared: NewSharedObjects()}
	if err := image.decodeProcesses(c, contents(t, 4096), ids); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := c.Processes[0]
	content := got.Descriptors[1].Content
	if content != got.Mappings[0].Content || content.Name != "m\xff" || content.Size != 1<<40 || !content.packed {
		t.Errorf("the content is %+v", content)
	}
	// What is not kept, or is in another form.
	got.Descriptors[1].Content, p.Descriptors[1].Content = nil, nil
	got.Mappings[0].Content, p.Mappings[0].Content = nil, nil
	if !reflect.DeepEqual(got, p) {
		t.Errorf("encoded %+v\ndecoded %+v", p, got)
		t.Errorf("encoded %+v\ndecoded %+v", p.State, got.State)
	}
}

func TestDecodeRefusesOtherFiles(t *testing.T) {
	root, err := inroot.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	machine, err := ThisMachine()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		open Files
		want sandbox.Class
	}{
		{"no content", func(string) (*os.File, error) { return nil, damaged("it is gone") }, sandbox.Invalid},
		{"a content of another size", contents(t, 4095), sandbox.Invalid},
		{"a library that is not there", contents(t, 4096), sandbox.Conflict},
	} {
		var image Image
		if err := json.Unmarshal(imageOf(t, someProcess()), &image); err != nil {
			t.Fatal(err)
		}
		image.Machine = machine
		if _, err := image.Decode(c.open, root, ids, 0); sandbox.ClassOf(err) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// forgeries are what no process of a cell could be.
var forgeries = map[string]func(*Process){
	"code segment of the kernel":   func(p *Process) { p.State.threads[0].Regs.Cs = 0x10 },
	"right to input and output":    func(p *Process) { p.State.threads[0].Regs.Eflags |= 0x3000 },
	"instruction of the kernel":    func(p *Process) { p.State.threads[0].Regs.Rip = 1 << 63 },
	"thread memory of the kernel":  func(p *Process) { p.State.threads[0].Regs.Gs_base = 1 << 63 },
	"no extensions":                func(p *Process) { p.State.threads[0].XState = nil },
	"real-time thread":             func(p *Process) { p.State.threads[0].Policy = unix.SCHED_FIFO },
	"personality":                  func(p *Process) { p.State.Personality = 8 },
	"mapping of address 0":         func(p *Process) { p.State.vmas[0].Start = 0 },
	"memory of the kernel":         func(p *Process) { p.State.vmas[1].End = ^uint64(0) &^ 0xfff },
	"mappings that overlap":        func(p *Process) { p.State.vmas[1].Start = 0x2000 },
	"pages of nobody":              func(p *Process) { p.State.own[0].Start = 0 },
	"shared memory over a mapping": func(p *Process) { p.Mappings[0].Start = 0x5000 },
	"shared memory at 0":           func(p *Process) { p.Mappings[0].Start = 0 },
	"shared memory without end":    func(p *Process) { p.Mappings[0].Size = ^uint64(0) &^ 0xfff },
	"another protocol":             func(p *Process) { p.Descriptors[2].Socket.Protocol = unix.IPPROTO_SCTP },
	"reset of no connection":       func(p *Process) { p.Descriptors[2].Socket.Reset = true },
	"netlink":                      func(p *Process) { p.Descriptors[2].Socket.Family = unix.AF_NETLINK },
	"alarm clock":                  func(p *Process) { p.Descriptors[0].Kind, p.Descriptors[0].Clock = Timer, unix.CLOCK_REALTIME_ALARM },
	"large pipe":                   func(p *Process) { p.Descriptors[0].Capacity = 1 << 40 },
	"descriptor below 0":           func(p *Process) { p.Descriptors[0].Number = -1 },
	"name with an end":             func(p *Process) { p.Place.Dir = "/tmp\x00/x" },
	"relative directory":           func(p *Process) { p.Place.Dir = "../.." },
	"init":                         func(p *Process) { p.State.NSPid, p.State.threads[0].NSPid = 1, 1 },
}

// TestDecodeRefusesForgeries changes one thing of a process that is decoded otherwise.
func TestDecodeRefusesForgeries(t *testing.T) {
	for name, forge := range forgeries {
		p := someProcess()
		forge(p)
		var image Image
		if err := json.Unmarshal(imageOf(t, p), &image); err != nil {
			t.Fatal(err)
		}
		c := &Checkpoint{Shared: NewSharedObjects()}
		if err := image.decodeProcesses(c, contents(t, 4096), ids); sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
	}
}

// FuzzDecode wants every image to be refused or to be within bounds.
func FuzzDecode(f *testing.F) {
	f.Add(imageOf(f, someProcess()))
	f.Add([]byte(`{"processes":[{"parent":-1,"state":{"nspid":2,"threads":[{"nspid":2}]}}]}`))
	for _, forge := range forgeries {
		p := someProcess()
		forge(p)
		f.Add(imageOf(f, p))
	}
	content := contentFile(f, 4096).Name()
	open := func(string) (*os.File, error) { return os.Open(content) }
	f.Fuzz(func(t *testing.T, data []byte) {
		var image Image
		if json.Unmarshal(data, &image) != nil {
			return
		}
		c := &Checkpoint{Shared: NewSharedObjects()}
		defer c.Close()
		if err := image.decodeProcesses(c, open, ids); err != nil {
			if sandbox.ClassOf(err) != sandbox.Invalid {
				t.Errorf("%v", err)
			}
			return
		}
		c.checkBounds(t)
	})
}

func (c *Checkpoint) checkBounds(t *testing.T) {
	numbers := map[int]bool{}
	for i, p := range c.Processes {
		if p.Parent != nil && !slices.Contains(c.Processes[:i], p.Parent) || len(minus(p.State.own, runsOf(p.State.vmas))) > 0 {
			t.Errorf("process %d: %+v", i, p)
		}
		for _, a := range p.State.vmas {
			if a.End > userEnd || a.Start >= a.End {
				t.Errorf("a mapping %v", a)
			}
		}
		for _, m := range p.Mappings {
			if len(both(runsOf(p.State.vmas), []run{{m.Start, m.Start + m.Size}})) > 0 {
				t.Errorf("shared memory at %x is over other", m.Start)
			}
		}
		for _, th := range p.State.threads {
			if !plainRegisters(&th.Regs) {
				t.Errorf("registers %+v", th.Regs)
			}
			if numbers[th.NSPid] || th.NSPid < 2 {
				t.Errorf("two threads are %d", th.NSPid)
			}
			numbers[th.NSPid] = true
		}
	}
	if at, err := c.FreeAddress(1 << 20); err == nil {
		for _, p := range c.Processes {
			for _, a := range p.State.vmas {
				if a.Start < at+1<<20 && a.End > at {
					t.Errorf("%x is in %v", at, a)
				}
			}
		}
	}
}
