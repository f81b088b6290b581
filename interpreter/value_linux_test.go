package interpreter_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"aether/interpreter"
	"aether/sandbox"
)

const pythonForms = `
class Rich:
    def __repr__(self): return 'rich'
    def _repr_html_(self): return '<b>é</b>'
    def _repr_markdown_(self): return '*m*'
    def _repr_svg_(self): return '<svg/>', {'meta': 1}
    def _repr_png_(self): return b'\x89PNG\x00'
    def _repr_jpeg_(self): return b'\xff\xd8'
    def _repr_pdf_(self): return b'%PDF'
    def _repr_latex_(self): return '$x$'
    def _repr_json_(self): return {'k': [1, None]}
    def _repr_javascript_(self): return 'alert(1)'
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {'application/vnd.some+json': {'a': 1}, 'e2b/chart': {'type': 'line'}, 'e2b/data': {'c': [1]}}
Rich()`

const nodeForms = `({[Symbol.for('aether.display')]() { return {
  'text/plain': 'rich', 'text/html': '<b>é</b>', 'text/markdown': '*m*', 'image/svg+xml': '<svg/>', 'image/png': Buffer.from('\x89PNG\x00', 'latin1'),
  'image/jpeg': new Uint8Array([255, 216]), 'application/pdf': Buffer.from('%PDF'), 'text/latex': '$x$', 'application/json': {k: [1, null]},
  'application/javascript': 'alert(1)', 'application/vnd.some+json': {a: 1}, 'e2b/chart': {type: 'line'}, 'e2b/data': {c: [1]}}; }})`

func TestRichValues(t *testing.T) {
	want := interpreter.Value{Main: true, Text: "rich", HTML: "<b>é</b>", Markdown: "*m*", SVG: "<svg/>", PNG: []byte("\x89PNG\x00"),
		JPEG: []byte("\xff\xd8"), PDF: []byte("%PDF"), LaTeX: "$x$", JavaScript: "alert(1)",
		Extra: map[string]json.RawMessage{"application/vnd.some+json": json.RawMessage(`{"a":1}`)}}
	for language, code := range map[interpreter.Language]string{interpreter.Python: pythonForms, interpreter.Node: nodeForms} {
		t.Run(string(language), func(t *testing.T) {
			r := do(t, start(t, language), code)
			if r.Main() == nil {
				t.Fatalf("no value: %+v", r.Error)
			}
			got := *r.Main()
			wantJSON(t, got.JSON, `{"k":[1,null]}`)
			wantJSON(t, got.Chart, `{"type":"line"}`)
			wantJSON(t, got.Data, `{"c":[1]}`)
			wantJSON(t, got.Extra["application/vnd.some+json"], `{"a":1}`)
			got.JSON, got.Chart, got.Data, got.Extra = nil, nil, nil, want.Extra
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func wantJSON(t *testing.T, got json.RawMessage, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &a); err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("the JSON is %s (%v), want %s", got, err, want)
	}
}

func TestPlainValuesHaveJSON(t *testing.T) {
	for language, codes := range map[interpreter.Language]map[string]string{
		interpreter.Python: {"{'a': [1, 2.5, None, True]}": `{"a":[1,2.5,null,true]}`, "'é'": `"é"`, "float('nan')": "", "{1, 2}": "", "[object()]": "", "a = []; a.append(a); a": ""},
		interpreter.Node:   {"({a: [1, 2.5, null, true]})": `{"a":[1,2.5,null,true]}`, "'é'": `"é"`, "NaN": "", "new Map()": "", "(() => 1)": "", "const o = {}; o.o = o; o": ""},
	} {
		c := start(t, language)
		for code, want := range codes {
			r := do(t, c, code)
			switch {
			case r.Main() == nil || r.Logs.Stderr != "" || r.Main().Truncated:
				t.Errorf("%s: %+v, %+v", code, r, r.Error)
			case want == "" && r.Main().JSON != nil:
				t.Errorf("%s has the JSON %s", code, r.Main().JSON)
			case want != "":
				wantJSON(t, r.Main().JSON, want)
			}
		}
	}
}

func TestDisplay(t *testing.T) {
	for _, language := range []interpreter.Language{interpreter.Python, interpreter.Node} {
		c := start(t, language)
		var seen []string
		handler := interpreter.Handler{Value: func(v interpreter.Value) { seen = append(seen, v.Text) }}
		r, err := c.Run(t.Context(), "display(1, 2)\ndisplay(3)\n4", handler)
		if err != nil || strings.Join(seen, " ") != "1 2 3 4" || len(r.Values) != 4 || r.Values[2].Main || !r.Values[3].Main {
			t.Errorf("%s: %v, %+v, %v", language, seen, r, err)
		}
	}
}

func TestDisplayFromThreadsAndChildren(t *testing.T) {
	c := start(t, interpreter.Python)
	r := do(t, c, `
import threading, os, sys
big = 'v' * 50000
def work(n):
    for i in range(5):
        display(big + str(n))
        os.write(1, b'.' * 9000)
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
pid = os.fork()
for t in threads: t.start()
for t in threads: t.join()
if pid == 0: os._exit(0)
os.waitpid(pid, 0)[1]`)
	if len(r.Values) != 41 || text(r) != "0" || r.Logs.Stdout != strings.Repeat(".", 40*9000) {
		t.Errorf("%d values, %d bytes, %q, %+v", len(r.Values), len(r.Logs.Stdout), text(r), r.Error)
	}
	for _, v := range r.Values[:min(40, len(r.Values))] {
		if len(v.Text) != 50003 {
			t.Errorf("a value of %d bytes", len(v.Text))
		}
	}
}

func TestForkedChildThatReturnsIsNoSecondInterpreter(t *testing.T) {
	c := start(t, interpreter.Python)
	r := do(t, c, "import os\nif os.fork() == 0: display('child')\nelse: os.wait()")
	if r.Error != nil || len(r.Values) != 1 {
		t.Errorf("%+v", r)
	}
	wantText(t, c, "1 + 1", "2")
}

func TestBrokenReprs(t *testing.T) {
	c := start(t, interpreter.Python)
	r := do(t, c, "class A:\n  def __repr__(self): return 'a'\n  def _repr_html_(self): 1/0\n  def _repr_json_(self): return object()\nA()")
	if text(r) != "a" || !strings.Contains(r.Logs.Stderr, "_repr_html_ of A failed: ZeroDivisionError") || !strings.Contains(r.Logs.Stderr, "application/json of A failed") {
		t.Errorf("%+v", r)
	}
	wantError(t, do(t, c, "class B:\n  def __repr__(self): 1/0\nB()"), "ZeroDivisionError", "division")
	wantText(t, c, "class C:\n  def __getattr__(self, name): return lambda *a, **k: 5\n  def __repr__(self): return 'c'\nC()", "c")
	wantText(t, c, "class D:\n  def _repr_html_(self): return 'd'\nD.__name__", "'D'")
}

// pyplot stands for matplotlib where it is not installed: an open figure, and a
// show that pyplot itself would only warn of.
const pyplot = `
import os, sys
os.makedirs('/tmp/site/matplotlib', exist_ok=True)
open('/tmp/site/matplotlib/__init__.py', 'w').close()
open('/tmp/site/matplotlib/figure.py', 'w').write('''
class Figure:
    def savefig(self, out, **options): out.write(b"PNG of " + self.name)
''')
open('/tmp/site/matplotlib/pyplot.py', 'w').write('''
from matplotlib.figure import Figure
figures = {}
def plot(name):
    f = Figure(); f.name = name; figures[len(figures) + 1] = f
def get_fignums(): return sorted(figures)
def figure(number): return figures[number]
def close(figure):
    for n in [n for n, f in figures.items() if f is figure]: del figures[n]
def show(): raise Exception("nothing can be shown")
''')
sys.path.insert(0, '/tmp/site')`

func TestOpenFiguresAreShown(t *testing.T) {
	c := start(t, interpreter.Python)
	do(t, c, pyplot)
	r := do(t, c, "import matplotlib.pyplot as plt\nplt.plot(b'one'); plt.show(); plt.plot(b'two')\n5")
	if r.Error != nil || len(r.Values) != 3 {
		t.Fatalf("%+v, %+v", r.Values, r.Error)
	}
	if got := string(r.Values[0].PNG) + string(r.Values[1].PNG) + string(r.Values[2].PNG); got != "PNG of onePNG of two" || text(r) != "5" {
		t.Errorf("got %q, %q", got, text(r))
	}
	for _, code := range []string{"6", "plt.plot(b'three'); plt.figure(1)"} {
		if r := do(t, c, code); len(r.Values) != 1 {
			t.Errorf("%s: a figure is shown again: %+v", code, r.Values)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		language                        interpreter.Language
		code, name, message, trace, not string
	}{
		{interpreter.Python, "def f():\n    1/0\nf()", "ZeroDivisionError", "division by zero", "line 2, in f\n    1/0", "aether"},
		{interpreter.Python, "if", "SyntaxError", "", "if", "aether"},
		{interpreter.Python, "import asyncio\nawait asyncio.sleep(0)\nraise KeyError('k')", "KeyError", "'k'", `File "<cell`, "run_until_complete"},
		{interpreter.Python, "import sys; sys.exit(3)", "SystemExit", "3", "", "aether"},
		{interpreter.Python, "try:\n  1/0\nexcept Exception as e:\n  raise RuntimeError('two') from e", "RuntimeError", "two", "direct cause", "aether"},
		{interpreter.Python, "def r(): r()\nr()", "RecursionError", "recursion", "repeated", "aether"},
		{interpreter.Python, "class E(Exception):\n  def __str__(self): raise ValueError\nraise E", "E", "its text cannot be had", "", "aether"},
		{interpreter.Python, "raise BaseException('base')", "BaseException", "base", "", "aether"},
		{interpreter.Python, "a\x00b", "", "null bytes", "", "aether"},
		{interpreter.Node, "function f() {\n  nothing.here\n}\nf()", "ReferenceError", "nothing is not defined", "at f (cell", "aether"},
		{interpreter.Node, "if (", "SyntaxError", "Unexpected end of input", "", "aether"},
		{interpreter.Node, "await 1; throw new TypeError('t')", "TypeError", "t", "cell", "aether"},
		{interpreter.Node, "throw {a: 1}", "object", "{ a: 1 }", "", "aether"},
		{interpreter.Node, "throw null", "object", "null", "", "aether"},
		{interpreter.Node, "await Promise.reject(new RangeError('r'))", "RangeError", "r", "", "aether"},
		{interpreter.Node, "await new Promise(() => {})", "Error", "can never come", "", "aether"},
		{interpreter.Node, "function r() { r() }; r()", "RangeError", "call stack", "", "aether"},
	} {
		t.Run(c.code, func(t *testing.T) {
			x := start(t, c.language)
			r := do(t, x, c.code)
			if r.Error == nil || c.name != "" && r.Error.Name != c.name || !strings.Contains(r.Error.Message, c.message) {
				t.Fatalf("got %+v, want %s: %s", r.Error, c.name, c.message)
			}
			if !strings.Contains(r.Error.Traceback, c.trace) || strings.Contains(r.Error.Traceback, c.not) {
				t.Errorf("the traceback is %s", r.Error.Traceback)
			}
			wantText(t, x, "1 + 1", "2")
		})
	}
}

func TestBashStatus(t *testing.T) {
	c := start(t, interpreter.Bash)
	for code, want := range map[string]int{"true": 0, "false": 1, "(exit 77)": 77, "no-such-command": 127, "if": 2, "true\nfalse": 1} {
		if r := do(t, c, code); r.Status != want || r.Error != nil {
			t.Errorf("%q: status %d, want %d, error %+v", code, r.Status, want, r.Error)
		}
	}
}

func TestInvalidCode(t *testing.T) {
	c := start(t, interpreter.Bash)
	for _, code := range []string{"\xff", "a\x00b", strings.Repeat("x", 9<<20)} {
		_, err := c.Run(t.Context(), code, interpreter.Handler{})
		if sandbox.ClassOf(err) != sandbox.Invalid {
			t.Errorf("%.10q: %v", code, err)
		}
	}
	if r := do(t, c, ": '"+strings.Repeat("x", 4<<20)+"'; echo fine"); r.Logs.Stdout != "fine\n" {
		t.Errorf("%+v", r)
	}
}
