package interpreter

import (
	"strings"
	"unicode/utf8"

	"aether/sandbox"
)

// Language is an interpreter of the image.
type Language string

const (
	// Python is python3, 3.8 or newer.
	Python Language = "python"
	// Node is Node.js, 16 or newer.
	Node Language = "node"
	// TypeScript is Node.js too, 22.13 or newer, which strips types by itself.
	TypeScript Language = "typescript"
	// Bash is bash, 4 or newer.
	Bash Language = "bash"
)

// Languages lists them.
func Languages() []Language { return []Language{Python, Node, TypeScript, Bash} }

// onNode says whether the interpreter is Node.js.
func (l Language) onNode() bool { return l == Node || l == TypeScript }

func (l Language) validate() error {
	for _, known := range Languages() {
		if l == known {
			return nil
		}
	}
	e := sandbox.Invalidf("language", "%.40q is not known", string(l))
	e.Remedy = "use one of python, node, typescript, bash"
	return e
}

// maxCode bounds one call's code. Code is what people and models write; data
// comes by files.
const maxCode = 8 << 20

func (l Language) validateCode(code string) error {
	switch {
	case len(code) > maxCode:
		e := sandbox.Invalidf("code", "%d bytes are more than %d", len(code), maxCode)
		e.Remedy = "write data to a file of the sandbox and read it from there"
		return e
	case !utf8.ValidString(code):
		return sandbox.Invalidf("code", "it is not UTF-8")
	case l == Bash && strings.ContainsRune(code, 0):
		return sandbox.Invalidf("code", "it holds a zero byte, which bash cannot read")
	}
	return nil
}
