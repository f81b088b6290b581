package interpreter_test

import (
	"testing"

	"aether/interpreter"
)

// calls are calls of one context, in order.
var calls = map[interpreter.Language][]struct{ code, stdout, stderr, text string }{
	interpreter.Python: {
		{"x = 40", "", "", "none"},
		{"x + 2", "", "", "42"},
		{"print('out'); import sys; print('err', file=sys.stderr); x", "out\n", "err\n", "40"},
		{"def f(a):\n    return a * 2\n\nf(x)", "", "", "80"},
		{"f(1);", "", "", "none"},
		{"None", "", "", "none"},
		{"_", "", "", "2"},
		{"'text'", "", "", "'text'"},
		{"import os; os.system('echo child; echo problem >&2'); os.write(1, b'raw')", "child\nraw", "problem\n", "3"},
		{"import asyncio\nawait asyncio.sleep(0.01)\nasync def g(): return 7\nawait g()", "", "", "7"},
		{"input() if False else sys.stdin.read()", "", "", "''"},
		{"__name__", "", "", "'__main__'"},
		{"import pickle\nclass C: pass\nisinstance(pickle.loads(pickle.dumps(C())), C)", "", "", "True"},
		{"print('\\udcff\\u00e9')", "\\udcff\u00e9\n", "", "none"},
		{"", "", "", "none"},
		{"# nothing", "", "", "none"},
		{"def closures():\n  y = 1\n  return [y for _ in range(2)]\nclosures()", "", "", "[1, 1]"},
	},
	interpreter.Node: {
		{"let x = 40", "", "", "none"},
		{"x + 2", "", "", "42"},
		{"console.log('out'); console.error('err'); x", "out\n", "err\n", "40"},
		{"const y = 1; class A {}; y", "", "", "1"},
		{"const y = 2; class A {}; y", "", "", "2"},
		{"undefined", "", "", "none"},
		{"null", "", "", "null"},
		{"'text'", "", "", "'text'"},
		{"12n", "", "", "12n"},
		{"-0", "", "", "-0"},
		{"Symbol('s')", "", "", "Symbol(s)"},
		{"require('child_process').execSync('echo child >&1; echo problem >&2', {stdio: 'inherit'}); 3", "child\n", "problem\n", "3"},
		{"const v = await new Promise(r => setTimeout(() => r(7), 10)); v", "", "", "7"},
		{"v", "", "", "7"},
		{"(await import('node:path')).sep", "", "", "'/'"},
		{"import { join as j, sep } from 'node:path'\nimport fs from \"fs\"; import * as os from 'os'\nj('a', 'b') + typeof fs.readSync + typeof os.cpus", "", "", "'a/bfunctionfunction'"},
		{"'import(x) from' + `import(${1 + 1})` // import('y')", "", "", "'import(x) fromimport(2)'"},
		{"require('fs').readFileSync(0, 'utf8')", "", "", "''"},
		{"Promise.resolve().then(() => console.log('soon')); 0", "soon\n", "", "0"},
		{"", "", "", "none"},
		{"({a: [1, {b: 2}]})", "", "", "{ a: [ 1, { b: 2 } ] }"},
		{"process.stdout.write('x') && process.stdout.isTTY", "x", "", "none"},
	},
	interpreter.Bash: {
		{"x=40", "", "", "none"},
		{"echo $((x + 2))", "42\n", "", "none"},
		{"echo out; echo err >&2", "out\n", "err\n", "none"},
		{"f() { echo \"it's $1\"; }", "", "", "none"},
		{"f 'a b'", "it's a b\n", "", "none"},
		{"declare -A m; m[k]=v; cd /tmp", "", "", "none"},
		{"echo ${m[k]} $PWD", "v /tmp\n", "", "none"},
		{"cat; read line; echo $?", "1\n", "", "none"},
		{"break; echo after 2>/dev/null", "after\n", "bash: break: only meaningful in a `for', `while', or `until' loop\n", "none"},
		{"set -u; echo $nothing; echo not here", "", "bash: nothing: unbound variable\n", "none"},
		{"set +u; echo ${m[k]}", "v\n", "", "none"},
		{"echo 'a\nb' | tr a c", "c\nb\n", "", "none"},
		{"printf() { echo hijacked; }; alias eval=false; set -e; true", "", "", "none"},
		{"set +e; unset -f printf; printf '%s' '!x'", "!x", "", "none"},
		{"", "", "", "none"},
	},
}

func TestCalls(t *testing.T) {
	for language, list := range calls {
		t.Run(string(language), func(t *testing.T) {
			c := start(t, language)
			for i, call := range list {
				r := do(t, c, call.code)
				if r.Error != nil || r.Logs.Stdout != call.stdout || r.Logs.Stderr != call.stderr || text(r) != call.text {
					t.Errorf("%q gives %+v, %q, text %q; want %q, %q, %q", call.code, r.Error, r.Logs, text(r), call.stdout, call.stderr, call.text)
				}
				if r.Count != i+1 {
					t.Errorf("%q is call %d, not %d", call.code, r.Count, i+1)
				}
				if r.Before != (interpreter.Logs{}) || r.Dropped != (interpreter.Dropped{}) {
					t.Errorf("%q came after %+v and dropped %+v", call.code, r.Before, r.Dropped)
				}
			}
		})
	}
}
