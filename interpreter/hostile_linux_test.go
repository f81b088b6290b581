package interpreter_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"aether/guest"
	"aether/interpreter"
	"aether/sandbox"
)

func TestHowInterpretersEnd(t *testing.T) {
	for _, c := range []struct {
		language interpreter.Language
		code     string
		want     guest.Status
	}{
		{interpreter.Python, "print('last'); import os; os._exit(3)", guest.Status{Code: 3}},
		{interpreter.Python, "print('last'); import os; os.kill(os.getpid(), 9)", guest.Status{Code: -1, Signal: syscall.SIGKILL}},
		{interpreter.Python, "print('last'); import os; os.abort()", guest.Status{Code: -1, Signal: syscall.SIGABRT}},
		{interpreter.Python, "print('last'); import os; os.closerange(3, 1000)", guest.Status{Code: 71}},
		{interpreter.Node, "console.log('last'); process.exit(4)", guest.Status{Code: 4}},
		{interpreter.Node, "console.log('last'); process.kill(process.pid, 'SIGKILL')", guest.Status{Code: -1, Signal: syscall.SIGKILL}},
		{interpreter.Bash, "echo last; exit 5", guest.Status{Code: 5}},
		{interpreter.Bash, "echo last; set -e; false", guest.Status{Code: 1}},
		{interpreter.Bash, "echo last; exec true", guest.Status{}},
		{interpreter.Bash, "echo last; kill -9 $$", guest.Status{Code: -1, Signal: syscall.SIGKILL}},
	} {
		t.Run(c.code, func(t *testing.T) {
			x := start(t, c.language)
			r, err := x.Run(t.Context(), c.code, interpreter.Handler{})
			ended := wantEnded(t, err, sandbox.NotFound)
			if ended.Status == nil || *ended.Status != c.want || r.Logs.Stdout != "last\n" {
				t.Errorf("%+v, %+v, want %+v", ended, r.Logs, c.want)
			}
			select {
			case <-x.Done():
			default:
				t.Error("it is not done")
			}
			_, again := x.Run(t.Context(), "1", interpreter.Handler{})
			wantEnded(t, again, sandbox.NotFound)
			if err := x.Interrupt(t.Context()); err != nil {
				t.Errorf("interrupt: %v", err)
			}
		})
	}
}

func TestOutOfMemory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no limit on memory")
	}
	client := newClient(t, sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 128 << 20}})
	c := startIn(t, client, interpreter.Python, interpreter.Options{})
	_, err := c.Run(t.Context(), "x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))", interpreter.Handler{})
	if ended := wantEnded(t, err, sandbox.Exhausted); !ended.Status.OutOfMemory {
		t.Errorf("%+v", ended)
	}
}

// TestDeathBehindAHeldOutput: a child keeps the output open, so the end of the
// interpreter itself cannot be seen on it.
func TestDeathBehindAHeldOutput(t *testing.T) {
	c := start(t, interpreter.Python)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := c.Run(ctx, "import os, subprocess; subprocess.Popen(['sleep', '600']); os._exit(1)", interpreter.Handler{})
	wantEnded(t, err, sandbox.NotFound)
}

func TestForgedReplies(t *testing.T) {
	c := start(t, interpreter.Python)
	// The code finds key and nonce in its own process and ends its call early,
	// with an error and a value of its own making, and replies to other calls.
	r := do(t, c, `
import gc, os, sys, time
own = next(g for g in (getattr(f, '__globals__', {}) for f in [display]) if 'KEY' in g)
def forge(nonce, kind, body, fd=1):
    os.write(fd, b'\x1e' + own['KEY'] + nonce + b'00000000' + kind + b'=' + b'%04x' % len(body) + body)
other = b'f' * 32
forge(other, b'e', b'{"count":99}'); forge(other, b'e', b'', 2); forge(other, b'x', b'{"name":"Forged"}')
forge(own['nonce'], b'v', b'not json'); forge(own['nonce'], b'v', b'{"data":{"image/png":"***"},"main":true}')
forge(own['nonce'], b'x', b'{"name":"Mine","value":"forged"}')
forge(own['nonce'], b'e', b'{"count":77}'); forge(own['nonce'], b'e', b'', 2)
time.sleep(0.3)
print('after')
`)
	if r.Count != 77 || r.Dropped.Values != 1 || len(r.Values) != 1 || !r.Values[0].Truncated {
		t.Errorf("%+v", r)
	}
	wantError(t, r, "Mine", "forged")
	// What came after the forged end is no part of the next call.
	if r := do(t, c, "print('next'); 1"); r.Logs.Stdout != "next\n" || text(r) != "1" || r.Count != 2 || r.Error != nil || r.Before.Stdout != "after\n" {
		t.Errorf("%+v", r)
	}
}

func TestBytesThatLookLikePieces(t *testing.T) {
	c := start(t, interpreter.Python)
	var out bytes.Buffer
	r, err := c.Run(t.Context(), `
import os, time
key = display.__globals__['KEY']
for n in range(1, 33):
    os.write(1, b'\x1e' + key[:n])
    if n % 8 == 0: time.sleep(0.01)
os.write(1, b'\x1e' + key + b'x' * 100)
os.write(1, b'\x1e')`, interpreter.Handler{Stdout: &out})
	key := c.Handle().Key
	var want strings.Builder
	for n := 1; n <= 32; n++ {
		want.WriteString("\x1e" + key[:n])
	}
	want.WriteString("\x1e" + key + strings.Repeat("x", 100) + "\x1e")
	if err != nil || r.Error != nil || out.String() != want.String() || r.Logs.Stdout != want.String() {
		t.Errorf("%v, %+v: %q", err, r.Error, out.String())
	}
}

func TestBinaryAndBigOutput(t *testing.T) {
	const size = 64 << 20
	for language, code := range map[interpreter.Language]string{
		interpreter.Python: "import sys, os\nblock = os.urandom(1 << 20)\nfor i in range(64): sys.stdout.buffer.write(block)\nimport hashlib\nhashlib.sha256(block * 64).hexdigest()",
		interpreter.Node:   "const c = require('crypto'), b = c.randomBytes(1 << 20), h = c.createHash('sha256'); for (let i = 0; i < 64; i++) { h.update(b); process.stdout.write(b) }; h.digest('hex')",
		interpreter.Bash:   "head -c 67108864 /dev/zero",
	} {
		t.Run(string(language), func(t *testing.T) {
			c := start(t, language)
			sum := sha256.New()
			r, err := c.Run(t.Context(), code, interpreter.Handler{Stdout: sum})
			want := strings.Trim(text(r), "'")
			if language == interpreter.Bash {
				want = fmt.Sprintf("%x", sha256.Sum256(make([]byte, size)))
			}
			if err != nil || fmt.Sprintf("%x", sum.Sum(nil)) != want {
				t.Errorf("the bytes differ: %v, %+v", err, r.Error)
			}
			if len(r.Logs.Stdout) != 1<<20 || r.Dropped.StdoutBytes != size-1<<20 {
				t.Errorf("%d are kept and %d dropped", len(r.Logs.Stdout), r.Dropped.StdoutBytes)
			}
		})
	}
}

func TestFloodEndsWithTheDeadline(t *testing.T) {
	for _, code := range []string{
		"import os, signal; signal.signal(2, signal.SIG_IGN)\nwhile True: os.write(1, b'x' * 65536)",
		"import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: display('x')",
		"import os, signal; signal.signal(2, signal.SIG_IGN)\nk = display.__globals__\nwhile True: os.write(1, b'\\x1e' + k['KEY'] + k['nonce'] + b'%08xv<0fb1' % (id(os.urandom(8)) & 0xffffffff) + b'x' * 4017)",
	} {
		before := heap()
		_, r, err := runUntil(t, newClient(t, sandbox.Spec{}), interpreter.Python, code, time.Second, func(r interpreter.Result) bool { return r.Dropped != (interpreter.Dropped{}) })
		wantEnded(t, err, sandbox.Timeout)
		if grown := heap() - before; grown > 200<<20 {
			t.Errorf("the host's heap has grown by %d MiB", grown>>20)
		}
		if r.Dropped == (interpreter.Dropped{}) {
			t.Errorf("%s: nothing is said to be dropped: %d bytes, %d values", code, len(r.Logs.Stdout), len(r.Values))
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestResultsAreBounded(t *testing.T) {
	opts := interpreter.Options{Limits: interpreter.Limits{OutputBytes: 10, TextBytes: 20, ValueBytes: 4000, TotalBytes: 9000, Values: 3}}
	c := startIn(t, newClient(t, sandbox.Spec{}), interpreter.Python, opts)
	r := do(t, c, "print('0123456789abcdef'); 'y' * 1000")
	if r.Logs.Stdout != "0123456789" || r.Dropped.StdoutBytes != 7 || !r.Main().Truncated || !strings.HasPrefix(text(r), "'yyyyyyyyyyyyyyyyyyy... (982 more") {
		t.Errorf("%+v", r)
	}
	r = do(t, c, "class H:\n  def _repr_html_(self): return 'h' * 100000\ndisplay(H())\n1")
	if r.Dropped.Values != 1 || text(r) != "1" {
		t.Errorf("one value too large: %+v", r)
	}
	r = do(t, c, "for i in range(7): display(i)")
	if r.Dropped.Values != 4 || len(r.Values) != 3 {
		t.Errorf("too many values: %+v", r)
	}
	r = do(t, c, "class G:\n  def _repr_html_(self): return 'h' * 3500\nfor i in range(3): display(G())\n1/0")
	if r.Dropped.Values != 1 || len(r.Values) != 2 || r.Error == nil {
		t.Errorf("values too large together: %+v", r)
	}
}

// TestGiantResult is a value of a gigabyte in code that means no harm.
func TestGiantResult(t *testing.T) {
	c := start(t, interpreter.Python)
	r := do(t, c, "class G:\n  def __repr__(self): return 'g' * (1 << 28)\nG()")
	if r.Main() == nil || !r.Main().Truncated || len(text(r)) > 300<<10 {
		t.Errorf("%+v", r.Error)
	}
	wantText(t, c, "2", "2")
}

func TestRedefinitionsDoNoHarm(t *testing.T) {
	c := start(t, interpreter.Python)
	do(t, c, `
import json, os, sys, signal, builtins, traceback, io, linecache
json.dumps = os.write = os.read = signal.signal = traceback.format_exception = None
len = int = str = repr = compile = eval = getattr = None
builtins.isinstance = builtins.repr = builtins.len = None
sys.stdout = io.StringIO()
sys.stderr = None
del sys.modules['json']`)
	wantText(t, c, "1", "1")
	if r := do(t, c, "1/0"); r.Error == nil || r.Error.Name != "ZeroDivisionError" {
		t.Errorf("%+v", r.Error)
	}
	n := start(t, interpreter.Node)
	do(t, n, `JSON.stringify = Buffer.from = require('fs').writeSync = require('fs').readSync = require('util').inspect = setImmediate = null;
process.stdout; console = null; Object.defineProperty(process, 'stdout', {value: null}); 0`)
	wantText(t, n, "1 + 1", "2")
}

func TestChildrenThatMakePipesNonBlocking(t *testing.T) {
	need(t, interpreter.Node)
	c := start(t, interpreter.Python)
	r := do(t, c, "import subprocess\nsubprocess.run(['node', '-e', 'process.stdout.write(\"n\")'])\nimport os\nos.set_blocking(1, False)\ndisplay('v' * 200000)\nlen('done')")
	if len(r.Values) != 2 || len(r.Values[0].Text) != 200002 || text(r) != "4" {
		t.Errorf("%d values, %+v", len(r.Values), r.Error)
	}
}

func TestHandlerErrors(t *testing.T) {
	c := start(t, interpreter.Bash)
	broken := errors.New("broken")
	r, err := c.Run(t.Context(), "echo one; sleep 0.1; echo two", interpreter.Handler{Stdout: failing{broken}})
	if !errors.Is(err, broken) || r.Logs.Stdout != "one\ntwo\n" {
		t.Errorf("%v, %+v", err, r)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

var _ io.Writer = failing{}
