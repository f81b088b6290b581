package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// The test program is its own attacker: shown inside a cell and started with
// this variable, it makes the attack of that name instead of running tests.
const (
	attackVariable = "AETHER_ATTACK"
	factsVariable  = "AETHER_ATTACK_FACTS"
)

// facts are what attackers are told about the outside, so that no wall holds
// only because its place was not known.
type facts struct {
	Secret    string // what stands in a file and in the memory outside
	File      string // the file of the host that holds it
	Address   uint64 // where the memory outside holds it
	Pid       int    // a process of the same user outside
	Port      int    // a listener on the host's 127.0.0.1
	Abstract  string // a listener on an abstract socket of the host
	Hostname  string // of the attacker's own cell
	OtherPort int    // a listener in another cell
	Limit     int    // how far an exhausting attack goes
	Memory    int64  // what the memory group of a keeper's cell may hold
	Sharing   sharing
	Kind      string // of memory to hold, or of things to use up
}

// trial is one attempt on one wall. Inside, try gives nil if the wall was
// passed. want, if not empty, is what the wall answers.
type trial struct {
	name string
	try  func() error
	want []syscall.Errno
}

// attack is a list of attempts that one process makes, one after another.
type attack struct {
	name   string
	trials func(facts) []trial
}

var attacks = []attack{
	{"files", fileTrials},
	{"mounts", mountTrials},
	{"proc", procTrials},
	{"processes", processTrials},
	{"network", networkTrials},
	{"devices", deviceTrials},
	{"kernel", kernelTrials},
	{"refusals", refusalTrials},
	{"privileges", privilegeTrials},
}

// roles are attacks that are judged by more than answers.
var roles = map[string]func(facts) error{
	"neighbour": neighbour, "resident": resident, "spy": spy, "stopper": stopper, "daemons": daemons, "linger": linger,
	"hog": hog, "fill": fill, "inodes": inodes, "descriptors": descriptors, "terminals": terminals, "watchers": watchers,
	"threads": threads, "keeper": keeper, "abi": foreignABI, "signaller": signaller, "watcher": watcher,
	"prober": prober, "hold": hold, "exhaust": exhaust, "victim": victim,
}

// errHeld is for walls that answer with nothing rather than with an errno.
var errHeld = errors.New("it held")

func TestMain(m *testing.M) {
	name := os.Getenv(attackVariable)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := play(name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(name string) error {
	var known facts
	if err := json.Unmarshal([]byte(os.Getenv(factsVariable)), &known); err != nil {
		return err
	}
	if role, ok := roles[name]; ok {
		return role(known)
	}
	for _, a := range attacks {
		if a.name == name {
			return answerAll(a.trials(known))
		}
	}
	return fmt.Errorf("no attack has the name %q", name)
}

// answer is what came of a trial, as one line of JSON.
type answer struct {
	Trial  string
	Passed bool
	Errno  syscall.Errno
	Text   string
}

func answerAll(list []trial) error {
	out := json.NewEncoder(os.Stdout)
	for _, t := range list {
		err := t.try()
		a := answer{Trial: t.name, Passed: err == nil}
		if err != nil {
			a.Text = err.Error()
			errors.As(err, &a.Errno)
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// call makes a system call that must fail.
func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// yields passes if the file has something to read.
func yields(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	n, err := file.Read(make([]byte, 1))
	if n > 0 {
		return nil
	}
	return errors.Join(errHeld, err)
}

// holds passes if the file has the text in it.
func holds(path, text string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return contains(string(content), text)
}

// writes passes if a line can be written to the file.
func writes(path, line string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(line)
	return err
}
