package cell_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/image/snapshot"
	"aether/internal/host/checkpoint/checkpointtest"
	"aether/sandbox"
)

// TestStoredIDsAreTheCells reads everything that a snapshot says of users and groups:
// they are those that the cell sees, never the host's, which another cell need not have.
func TestStoredIDsAreTheCells(t *testing.T) {
	needRoot(t, "several users in a cell")
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{Command: sandbox.CommandDefaults{User: "7:8"}})
	python := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
for place in "/tmp/own", "/dev/shm/own": open(place, "w").close()
l = socket.socket(socket.AF_UNIX); l.bind("/tmp/socket"); l.listen()
m = os.memfd_create("m"); os.write(m, b"x"); f = os.open("/tmp/gone", os.O_RDWR | os.O_CREAT); os.unlink("/tmp/gone")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1]); os.kill(os.getpid(), signal.SIGUSR1)`, Answer: `
sender = signal.sigtimedwait([signal.SIGUSR1], 0)
return os.getresuid(), os.getresgid(), os.getgroups(), sender.si_uid, [os.stat(p).st_uid for p in ("/tmp/own", "/dev/shm/own", "/tmp/socket")]`}.Program())
	python.hear(t, "primed")
	kept := checkpointOf(t, source)
	owned := 0
	for _, doc := range storedDocuments(t, kept) {
		walkIDs(t, doc, func(name string, id int64) {
			if id >= 1<<16 {
				t.Errorf("%s is %d, an id of the host", name, id)
			}
			if id == 7 {
				owned++
			}
		})
	}
	const files, process, signal = 3, 1, 1
	if owned != files+process+signal {
		t.Errorf("user 7 is named %d times", owned)
	}
	child := converse(t, goOn(t, driver, kept, sandbox.Spec{}), python.pid)
	for _, c := range []*conversation{python, child} {
		c.say(t, "?")
		c.hear(t, "((7, 7, 7), (8, 8, 8), [8], 7, [7, 7, 7])")
	}
}

// storedDocuments are the manifest and what is said of processes.
func storedDocuments(t *testing.T, dir string) (list []any) {
	t.Helper()
	rec, err := snapshot.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "manifest"), filepath.Join(dir, "blobs", rec.Attached["processes"])} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber()
		for decoder.More() {
			var doc any
			if err := decoder.Decode(&doc); err != nil {
				t.Fatal(err)
			}
			list = append(list, doc)
		}
	}
	return list
}

// walkIDs finds ids by the names of their fields, and the sender's in a signal.
func walkIDs(t *testing.T, doc any, found func(name string, id int64)) {
	switch doc := doc.(type) {
	case []any:
		for _, each := range doc {
			walkIDs(t, each, found)
		}
	case map[string]any:
		for name, value := range doc {
			switch lower := strings.ToLower(name); {
			case lower == "uid" || lower == "gid":
				found(name, number(t, value))
			case lower == "groups" && value != nil:
				for _, group := range value.([]any) {
					found(name, number(t, group))
				}
			case lower == "queued" && value != nil:
				for _, info := range value.([]any) {
					found("the sender of a signal", sender(t, info.([]any)))
				}
			default:
				walkIDs(t, value, found)
			}
		}
	}
}

// sender is si_uid of a siginfo.
func sender(t *testing.T, info []any) int64 {
	var uid [4]byte
	for i := range uid {
		uid[i] = byte(number(t, info[20+i]))
	}
	return int64(binary.NativeEndian.Uint32(uid[:]))
}

func number(t *testing.T, value any) int64 {
	t.Helper()
	n, err := value.(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
