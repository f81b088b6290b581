package cell_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"aether/image/snapshot"
	"aether/internal/host/checkpoint/checkpointtest"
	"aether/sandbox"
)

// copySnapshot gives a snapshot that can be changed.
func copySnapshot(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// damage gives a copy of a snapshot in which what is said of processes is
// changed, with all digests right.
func damage(t testing.TB, dir string, change func(doc map[string]any)) string {
	t.Helper()
	dir = copySnapshot(t, dir)
	rec, err := snapshot.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "blobs", rec.Attached["processes"]))
	if err != nil {
		t.Fatal(err)
	}
	decoder, doc := json.NewDecoder(bytes.NewReader(data)), map[string]any{}
	decoder.UseNumber() // addresses do not fit a float
	if err := decoder.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	change(doc)
	rec.Attached["processes"] = addBlob(t, dir, doc)
	text, err := json.Marshal(rec)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "snapshot.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func addBlob(t testing.TB, dir string, doc any) string {
	t.Helper()
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	if err := os.WriteFile(filepath.Join(dir, "blobs", digest), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return digest
}

// TestDamagedCheckpointsAreRefused flips a bit of every content, and cuts it.
func TestDamagedCheckpointsAreRefused(t *testing.T) {
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", adder)
	python.hear(t, "primed")
	kept := checkpointOf(t, source)
	rec, err := snapshot.Read(kept)
	if err != nil || len(rec.Attached) != 2 {
		t.Fatalf("%v are attached, %v", rec.Attached, err)
	}
	for name, digest := range rec.Attached {
		for how, change := range map[string]func([]byte) []byte{
			"flipped": func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
			"cut":     func(b []byte) []byte { return b[:len(b)-1] },
		} {
			dir := copySnapshot(t, kept)
			blob := filepath.Join(dir, "blobs", digest)
			data, err := os.ReadFile(blob)
			if err == nil {
				err = os.WriteFile(blob, change(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			instance, err := driver.Restore(t.Context(), dir, sandbox.Checkpoint, sandbox.Spec{})
			if err == nil {
				destroy(t, instance)
			}
			if sandbox.ClassOf(err) != sandbox.Invalid {
				t.Errorf("%s, %s: %v", name, how, err)
			}
		}
	}
}

// TestForgedCheckpoints has a snapshot say what no cell could have said. What this
// program does itself is refused; what the process does it may do.
func TestForgedCheckpoints(t *testing.T) {
	needRoot(t, "rights that would be worth stealing")
	driver := processKeeper(t, t.TempDir())
	source := create(t, driver, sandbox.Spec{})
	python := converse(t, source, 0, "python3", "-c", checkpointtest.Kind{Before: `
f = os.open("/tmp/file", os.O_RDWR | os.O_CREAT); os.symlink("/../../../../../../../../root/.bashrc", "/tmp/link")`, Answer: "return os.pread(f, 100, 0)"}.Program())
	python.hear(t, "primed")
	kept := checkpointOf(t, source)
	process := func(doc map[string]any) map[string]any {
		return doc["processes"].(map[string]any)["processes"].([]any)[0].(map[string]any)
	}
	state := func(doc map[string]any) map[string]any { return process(doc)["state"].(map[string]any) }
	vma := func(doc map[string]any) map[string]any { return state(doc)["vmas"].([]any)[0].(map[string]any) }
	thread := func(doc map[string]any) map[string]any { return state(doc)["threads"].([]any)[0].(map[string]any) }
	registers := func(doc map[string]any) map[string]any { return thread(doc)["registers"].(map[string]any) }
	xstate := func(doc map[string]any, change func([]byte)) {
		data, err := base64.StdEncoding.DecodeString(thread(doc)["xstate"].(string))
		if err != nil || len(data) < 576 {
			t.Fatalf("%d bytes of extensions, %v", len(data), err)
		}
		change(data)
		thread(doc)["xstate"] = data
	}
	file := func(doc map[string]any) map[string]any {
		for _, d := range process(doc)["descriptors"].([]any) {
			if d := d.(map[string]any); d["Target"] == "/tmp/file" {
				return d
			}
		}
		t.Fatal("the file is not there")
		return nil
	}
	for name, forge := range map[string]func(map[string]any){
		"file of the kernel":   func(doc map[string]any) { file(doc)["Target"] = "/proc/kallsyms" },
		"setting":              func(doc map[string]any) { file(doc)["Target"] = "/proc/sys/kernel/core_pattern" },
		"device":               func(doc map[string]any) { file(doc)["Target"] = "/dev/zero" },
		"terminal multiplexer": func(doc map[string]any) { file(doc)["Target"] = "/dev/pts/ptmx" },
		"path upwards":         func(doc map[string]any) { file(doc)["Target"] = "/../../../../../root/.profile.none" },
		"no path":              func(doc map[string]any) { file(doc)["Target"] = "tmp/file" },
		"large pipe":           func(doc map[string]any) { file(doc)["Kind"], file(doc)["Capacity"] = "pipe", 1<<40 },
		"unknown kind":         func(doc map[string]any) { file(doc)["Kind"] = "other" },
		"user of the host":     func(doc map[string]any) { process(doc)["place"].(map[string]any)["uid"] = 1 << 20 },
		"group of the host":    func(doc map[string]any) { process(doc)["place"].(map[string]any)["groups"] = []int{1 << 20} },
		"its own parent":       func(doc map[string]any) { process(doc)["parent"] = 0 },
		"orphan of a command":  func(doc map[string]any) { process(doc)["orphan"] = true },
		"init":                 func(doc map[string]any) { process(doc)["state"].(map[string]any)["nspid"] = 1 },
		"real-time thread": func(doc map[string]any) {
			process(doc)["state"].(map[string]any)["threads"].([]any)[0].(map[string]any)["policy"] = 1
		},
		"pages of nobody": func(doc map[string]any) {
			process(doc)["state"].(map[string]any)["own"] = []map[string]uint64{{"start": 1 << 40, "end": 1<<40 + 4096}}
		},
		"memory of the kernel": func(doc map[string]any) {
			vmas := process(doc)["state"].(map[string]any)["vmas"].([]any)
			vmas[len(vmas)-1].(map[string]any)["end"] = uint64(1<<64 - 4096)
		},
		"code segment of the kernel":   func(doc map[string]any) { registers(doc)["Cs"] = 0x10 },
		"code segment of 32 bits":      func(doc map[string]any) { registers(doc)["Cs"] = 0x23 },
		"stack segment of the kernel":  func(doc map[string]any) { registers(doc)["Ss"] = 0x18 },
		"right to input and output":    func(doc map[string]any) { registers(doc)["Eflags"] = 0x3202 },
		"virtual 8086 mode":            func(doc map[string]any) { registers(doc)["Eflags"] = 0x20202 },
		"instruction of the kernel":    func(doc map[string]any) { registers(doc)["Rip"] = uint64(0xffffffff81000000) },
		"instruction nowhere":          func(doc map[string]any) { registers(doc)["Rip"] = uint64(1) << 60 },
		"thread memory of the kernel":  func(doc map[string]any) { registers(doc)["Fs_base"] = uint64(0xffff888000000000) },
		"reserved bits of MXCSR":       func(doc map[string]any) { xstate(doc, func(x []byte) { x[27] = 0xff }) },
		"reserved parts of extensions": func(doc map[string]any) { xstate(doc, func(x []byte) { x[512+7], x[512+15] = 0xff, 0xff }) },
		"half of the extensions":       func(doc map[string]any) { thread(doc)["xstate"] = []byte{1, 2, 3} },
		"no system call where one is to be": func(doc map[string]any) {
			state(doc)["syscall_at"] = state(doc)["vmas"].([]any)[0].(map[string]any)["start"]
		},
		"personality":          func(doc map[string]any) { state(doc)["personality"] = 0x0400008 },
		"mapping of address 0": func(doc map[string]any) { vma(doc)["start"], vma(doc)["end"] = 0, 4096 },
		"mappings that overlap": func(doc map[string]any) {
			vmas := state(doc)["vmas"].([]any)
			state(doc)["vmas"] = append([]any{vmas[0]}, vmas...)
		},
		"shared memory over a mapping": func(doc map[string]any) {
			process(doc)["mappings"] = []map[string]any{{"Start": vma(doc)["start"], "Size": 4096, "Offset": 0, "Protection": 3, "Advice": nil, "Writable": true, "Path": "/tmp/file"}}
		},
		"shared memory over other": func(doc map[string]any) {
			one := map[string]any{"Start": 1 << 40, "Size": 8192, "Offset": 0, "Protection": 3, "Advice": nil, "Writable": true, "Path": "/tmp/file"}
			process(doc)["mappings"] = []any{one, one}
		},
		"another vdso": func(doc map[string]any) {
			for _, v := range state(doc)["vmas"].([]any) {
				if v := v.(map[string]any); v["name"] == "[vdso]" {
					v["name"] = "[vvar]"
				}
			}
		},
		"program of the host": func(doc map[string]any) {
			vma(doc)["name"] = "/../../../../../../../etc/shadow"
		},
		"directory upwards": func(doc map[string]any) {
			process(doc)["place"].(map[string]any)["dir"] = "/../../../../../../root/none"
		},
		"root of the host": func(doc map[string]any) { process(doc)["place"].(map[string]any)["root"] = "/.." },
		"link to the host": func(doc map[string]any) { file(doc)["Target"] = "/tmp/link" },
		"clock that wakes the machine": func(doc map[string]any) {
			file(doc)["Kind"], file(doc)["Clock"] = "timerfd", 8
		},
		"socket of another protocol": func(doc map[string]any) {
			file(doc)["Kind"], file(doc)["Inode"] = "socket", 77
			file(doc)["Socket"] = map[string]any{"Family": 2, "Type": 1, "Protocol": 262, "Inode": 77, "Options": nil, "Queue": nil}
		},
		"unknown field": func(doc map[string]any) { doc["more"] = 1 },
		"other kernel": func(doc map[string]any) {
			doc["processes"].(map[string]any)["machine"].(map[string]any)["kernel"] = strings.Repeat("0", 64)
		},
		"other processor": func(doc map[string]any) {
			doc["processes"].(map[string]any)["machine"].(map[string]any)["processor"] = []string{"quantum"}
		},
		"host that was up for longer than clocks go": func(doc map[string]any) {
			doc["processes"].(map[string]any)["machine"].(map[string]any)["clock"] = int64(3) << 61
		},
		"other library": func(doc map[string]any) {
			doc["processes"].(map[string]any)["files"].([]any)[0].(map[string]any)["modified"] = 1
		},
		"library that nothing is known of": func(doc map[string]any) { doc["processes"].(map[string]any)["files"] = nil },
		"command of nobody":                func(doc map[string]any) { doc["commands"].([]any)[0].(map[string]any)["pid"] = 77 },
		"streams without roles":            func(doc map[string]any) { doc["commands"].([]any)[0].(map[string]any)["roles"] = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			instance, err := driver.Restore(t.Context(), damage(t, kept, forge), sandbox.Checkpoint, sandbox.Spec{})
			if err == nil {
				destroy(t, instance)
			}
			switch class := sandbox.ClassOf(err); {
			case class != sandbox.Invalid && class != sandbox.Conflict:
				t.Errorf("it says %v", err)
			case name != "unknown field" && (strings.Contains(err.Error(), "unknown field") || strings.Contains(err.Error(), "cannot unmarshal")):
				t.Errorf("what is forged is not there: %v", err)
			default:
				t.Log(err)
			}
		})
	}
}
