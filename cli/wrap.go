package cli

import (
	"strings"
	"unicode/utf8"
)

// wrap breaks text between words into lines of at most width columns; a longer
// word has a line of its own. There is always at least one line.
func wrap(text string, width int) []string {
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		if used > 0 && used+1+n > width {
			lines = append(lines, line)
			line, used = "", 0
		}
		if used > 0 {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+n
	}
	return append(lines, line)
}

// paragraph is text wrapped to width, every line behind indent.
func paragraph(text, indent string, width int) string {
	lines := wrap(text, width-len(indent))
	return indent + strings.Join(lines, "\n"+indent)
}
