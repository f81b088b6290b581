package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// visible is text that others have had a part in, fit to be printed: what a terminal
// would obey, or what would turn the order of letters around, is written as Go writes it
// in quotes. Names of files, processes and templates, and reasons that guests, runtimes
// and daemons give, may hold any bytes.
func visible(text string) string { return escaped(text, "") }

// visibleLines is visible for text of several lines, whose ends and tabs stay.
func visibleLines(text string) string { return escaped(text, "\n\t") }

func escaped(text, keep string) string {
	if strings.IndexFunc(text, func(r rune) bool { return hidden(r) || r == utf8.RuneError }) < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case hidden(r) && !strings.ContainsRune(keep, r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// hidden says that a rune is not seen but obeyed: control characters of both sets, those
// of writing from right to left, and the ends of lines that only some programs know.
func hidden(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
}

// rendition is a colour of our own, or the end of one.
var rendition = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[(?:0|" + strings.Join([]string{string(bold), string(dim), string(red), string(green), string(yellow)}, "|") + ")m")
})

// visiblePage is visibleLines for a page that has colours of ours.
func visiblePage(page string) string {
	var b strings.Builder
	for {
		at := rendition().FindStringIndex(page)
		if at == nil {
			return b.String() + visibleLines(page)
		}
		b.WriteString(visibleLines(page[:at[0]]))
		b.WriteString(page[at[0]:at[1]])
		page = page[at[1]:]
	}
}

// visibleJSON writes what is hidden in strings as JSON does, so that a terminal does not
// obey it and a program reads what it was. encoding/json does so for the first 32 alone.
func visibleJSON(text []byte) []byte {
	var b bytes.Buffer
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if hidden(r) && r != '\n' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.Write(text[i : i+size])
		}
		i += size
	}
	return b.Bytes()
}
