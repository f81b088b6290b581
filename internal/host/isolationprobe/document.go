package isolationprobe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Version is that of documents and requests. A program and a judge of different versions
// do not work together.
const Version = 1

// Request tells the program what the outside has planted for it to find.
type Request struct {
	Version int `json:"version"`
	// Mark is an argument of a process of the host.
	Mark string `json:"mark"`
	// File and Unix are paths of the host: of a file that everybody may read and write, and of
	// a socket.
	File string `json:"file"`
	Unix string `json:"unix"`
	// Abstract is the name of an abstract socket, without the sign before it.
	Abstract string `json:"abstract"`
	// Loopback4, Loopback6 and Address are where the host listens; empty where it cannot.
	Loopback4 string `json:"loopback4,omitempty"`
	Loopback6 string `json:"loopback6,omitempty"`
	Address   string `json:"address,omitempty"`
}

// State is what became of a probe.
type State string

// States. What a Value means is known only where the host's is known too.
const (
	Open    State = "open"
	Closed  State = "closed"
	Value   State = "value"
	Unknown State = "unknown"
)

// Sighting is what one probe saw.
type Sighting struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Seen  string `json:"seen,omitempty"`
}

// Calls is how the numbers of the system call table were answered.
type Calls struct {
	// Tried are those that were attempted, each with harmless arguments.
	Tried int `json:"tried"`
	// Answered: the kernel's code of that call looked at the arguments.
	Answered int `json:"answered"`
	// Refused: EPERM or EACCES, by a filter or by the kernel itself, or the caller was killed.
	Refused int `json:"refused"`
	// Absent: ENOSYS, by a filter or because there is no such call.
	Absent int `json:"absent"`
}

// Document is all that the program says.
type Document struct {
	Version   int        `json:"version"`
	Calls     Calls      `json:"calls"`
	Sightings []Sighting `json:"sightings"`
}

// Bounds of a document, which comes from inside a sandbox and may be anything.
const (
	MaxDocument = 256 << 10
	maxProbes   = 256
	maxName     = 64
	maxSeen     = 240
	maxCalls    = 1024
)

// Parse reads a document. What it gives is within bounds and fit to be printed.
func Parse(text []byte) (d Document, err error) {
	if len(text) > MaxDocument {
		return d, fmt.Errorf("the document has over %d bytes", MaxDocument)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("it is no document: %.200s", printable(err.Error(), maxSeen))
	}
	if decoder.More() {
		return Document{}, errors.New("something follows the document")
	}
	if err := d.check(); err != nil {
		return Document{}, err
	}
	for i := range d.Sightings {
		d.Sightings[i].Seen = printable(d.Sightings[i].Seen, maxSeen)
	}
	return d, nil
}

func (d Document) check() error {
	switch c := d.Calls; {
	case d.Version != Version:
		return fmt.Errorf("it is of version %d, and %d is understood", d.Version, Version)
	case len(d.Sightings) > maxProbes:
		return fmt.Errorf("%d sightings are more than %d", len(d.Sightings), maxProbes)
	case min(c.Tried, c.Answered, c.Refused, c.Absent) < 0 || c.Tried > maxCalls:
		return errors.New("its numbers of system calls are out of range")
	case c.Answered > c.Tried || c.Refused > c.Tried || c.Absent > c.Tried || c.Answered+c.Refused+c.Absent != c.Tried:
		return errors.New("its numbers of system calls do not add up")
	}
	seen := map[string]bool{}
	for _, s := range d.Sightings {
		if !isName(s.Name) || seen[s.Name] {
			return fmt.Errorf("%.80q is no name of a probe, or is there twice", s.Name)
		}
		seen[s.Name] = true
		switch s.State {
		case Open, Closed, Value, Unknown:
		default:
			return fmt.Errorf("%s: %.40q is no state", s.Name, s.State)
		}
	}
	return nil
}

func isName(name string) bool {
	if name == "" || len(name) > maxName {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// printable is a text without what a terminal obeys, of at most so many bytes.
func printable(text string, most int) string {
	var b strings.Builder
	for _, r := range text {
		if !unicode.IsPrint(r) {
			r = ' '
		}
		if b.Len()+len(string(r)) > most {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}
