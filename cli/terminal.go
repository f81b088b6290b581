package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// screen is what is known about the place that text is printed to.
type screen struct {
	// width in columns; 0 where nothing bounds a line.
	width  int
	colour bool
}

// screenOf finds out about w. What is no terminal has no width and no colour.
func screenOf(w io.Writer) screen {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return screen{}
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		// Some terminals, such as serial lines, do not know their size.
		width = 80
	}
	return screen{width: width, colour: wantsColour()}
}

func wantsColour() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// style is the number of an ANSI rendition; the empty style is plain.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

func (s screen) paint(as style, text string) string {
	if !s.colour || as == plain || text == "" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}

// prose is the width to which sentences are wrapped: long lines are hard to read
// even where they fit.
func (s screen) prose() int {
	const widest = 100
	if s.width == 0 {
		return widest
	}
	return min(s.width, widest)
}
