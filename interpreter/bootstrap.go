package interpreter

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed bootstrap/python.py
var pythonProgram string

//go:embed bootstrap/node.js
var nodeProgram string

//go:embed bootstrap/bash.sh
var bashProgram string

// The loaders read the program from the standard input and run it. What they
// leave on the command line says only how long it is.
const (
	pythonLoader = `import os
n, b = %d, b''
while len(b) < n:
    b += os.read(0, n - len(b)) or os._exit(70)
exec(compile(b, '<aether>', 'exec'), {'__name__': 'aether', '__builtins__': dict(vars(__import__('builtins')))})`

	nodeLoader = `{ const b = Buffer.alloc(%d);
for (let n = 0; n < b.length;) n += require('fs').readSync(%d, b, n, b.length - n) || process.exit(70);
require('vm').runInThisContext(b.toString(), {filename: 'aether:bootstrap'})(require, (name) => import(name)); }`

	// nodeShell hides the input and the reply streams, which node cannot do itself.
	nodeShell = `exec "$@" 9<&0 0</dev/null 8>&1 7>&2`
)

// launch is how one interpreter is started.
type launch struct {
	path    string
	args    []string
	program string // sent first
}

func (l Language) launch(key string, limits Limits) launch {
	switch l {
	case Python:
		program := fmt.Sprintf("KEY = '%s'; TEXT = %d\n", key, limits.TextBytes) + pythonProgram
		// It is unbuffered, so that what was written is out when the process dies.
		return launch{"python3", []string{"-u", "-c", fmt.Sprintf(pythonLoader, len(program))}, program}
	case Node, TypeScript:
		l := l.nodeLaunch(key, limits, 9, 8, 7)
		l.path, l.args = "sh", append([]string{"-c", nodeShell, "sh", "node"}, l.args...)
		return l
	}
	args := []string{"--norc", "--noprofile", "--noediting", "-i", "+H", "+m", "+o", "history", "-s"}
	return launch{"bash", args, "__aether_key=" + key + "\n" + bashProgram}
}

// nodeLaunch starts node with its input and outputs at the given descriptors.
func (l Language) nodeLaunch(key string, limits Limits, in, out, err int) launch {
	program := fmt.Sprintf("(function (require, load) { const KEY = '%s', INPUT = %d, OUT = %d, ERR = %d, TEXT = %d, TYPES = %t; %s\n})",
		key, in, out, err, limits.TextBytes, l == TypeScript, nodeProgram)
	return launch{"node", []string{"-e", fmt.Sprintf(nodeLoader, len(program), in)}, program}
}

// request is one call as the interpreter reads it.
func (l Language) request(op, nonce, payload string) string {
	if l != Bash {
		return fmt.Sprintf("%s %s %d\n%s", op, nonce, len(payload), payload)
	}
	work := map[string]string{
		"run":    `\builtin eval "$__aether_code" </dev/null 191>&- 192>&-`,
		"reseed": `__aether_reseed "$__aether_code"`,
		"sync":   `:`,
	}[op]
	count := ""
	if op == "run" {
		count = "__aether_count=$((__aether_count + 1)); "
	}
	// The end is told three times, for an interrupt costs bash the line it is at.
	return "{ __aether_code='" + strings.ReplaceAll(payload, "'", `'\''`) + "'; " + count + "__aether_begin " + nonce + "; } 2>/dev/null\n" +
		work + "\n" + "{ __aether_end $? " + nonce + "; } 2>/dev/null\n" + strings.Repeat("{ __aether_end 130 "+nonce+"; } 2>/dev/null\n", 2)
}

// farewell is sent before the end of the input. The programs of python and node
// hang up on what they leave; bash has to be told.
func (l Language) farewell() string {
	if l == Bash {
		return "{ \\builtin trap '' HUP; \\builtin kill -HUP -- -$$; } 2>/dev/null\n"
	}
	return ""
}

// signaller is a command that signals a whole process group, by the interpreter's
// own means: the image need not have any other.
func (l Language) signaller(pid, signal int) (path string, args []string) {
	switch l {
	case Python:
		return "python3", []string{"-I", "-S", "-c", fmt.Sprintf("import os; os.killpg(%d, %d)", pid, signal)}
	case Node, TypeScript:
		return "node", []string{"-e", fmt.Sprintf("process.kill(-%d, %d)", pid, signal)}
	}
	return "bash", []string{"-c", fmt.Sprintf("kill -%d -- -%d", signal, pid)}
}
