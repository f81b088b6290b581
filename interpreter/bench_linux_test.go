package interpreter_test

import (
	"testing"

	"aether/interpreter"
	"aether/sandbox"
)

func BenchmarkStart(b *testing.B) {
	for _, language := range languages {
		b.Run(string(language), func(b *testing.B) {
			need(b, language)
			client := newClient(b, sandbox.Spec{})
			for b.Loop() {
				c, err := interpreter.Start(b.Context(), client, language, interpreter.Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := c.Close(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkRun(b *testing.B) {
	for _, language := range languages {
		b.Run(string(language), func(b *testing.B) {
			c := start(b, language)
			for b.Loop() {
				do(b, c, "1")
			}
		})
	}
}

func BenchmarkValue(b *testing.B) {
	opts := interpreter.Options{Limits: interpreter.Limits{TextBytes: 8 << 20}}
	c := startIn(b, newClient(b, sandbox.Spec{}), interpreter.Python, opts)
	b.SetBytes(4 << 20)
	for b.Loop() {
		do(b, c, "class V:\n  def __repr__(self): return 'v' * (4 << 20)\nV()")
	}
}

func BenchmarkOutput(b *testing.B) {
	c := start(b, interpreter.Python)
	b.SetBytes(16 << 20)
	for b.Loop() {
		do(b, c, "import os\nfor i in range(256): os.write(1, b'v' * 65536)")
	}
}
