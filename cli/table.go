package cli

import (
	"strings"
	"unicode/utf8"
)

// cell is a piece of text in a table and how it looks.
type cell struct {
	text  string
	style style
}

func text(s string) cell { return cell{text: s} }

func (c cell) width() int { return utf8.RuneCountInString(c.text) }

// table has rows of as many cells as there are titles.
type table struct {
	titles []string
	rows   [][]cell
}

const columnGap = 2

// widths are those of the columns, the last included.
func (t table) widths() []int {
	widths := make([]int, len(t.titles))
	for i, title := range t.titles {
		widths[i] = text(title).width()
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], c.width())
		}
	}
	return widths
}

func (t table) width() int {
	sum := columnGap * (len(t.titles) - 1)
	for _, w := range t.widths() {
		sum += w
	}
	return sum
}

// withNotes is the table with one more column: the first line of each row's notes
// in that row, and each further one on a row of its own. They are wrapped so that
// the table fits into width, if it is not 0.
func (t table) withNotes(title string, notes func(row int) []string, width int) table {
	with := table{titles: append(t.titles, title)}
	room := noteRoom(t.width()+columnGap, width)
	for n, row := range t.rows {
		for i, line := range wrapAll(notes(n), room) {
			if i > 0 {
				row = make([]cell, len(t.titles))
			}
			with.rows = append(with.rows, append(row, text(line)))
		}
	}
	return with
}

// noteRoom is what the other columns leave, and not so little that a note
// becomes a column of single words.
func noteRoom(used, width int) int {
	const least, unbounded = 20, 1 << 20
	if width == 0 {
		return unbounded
	}
	return max(width-used, least)
}

// wrapAll gives at least one line.
func wrapAll(paragraphs []string, width int) []string {
	var lines []string
	for _, p := range paragraphs {
		lines = append(lines, wrap(p, width)...)
	}
	if len(lines) == 0 {
		return []string{""}
	}
	return lines
}

// render draws the table without a newline at its end.
func (t table) render(s screen) string {
	widths := t.widths()
	head := make([]cell, len(t.titles))
	for i, title := range t.titles {
		head[i] = cell{title, bold}
	}
	lines := []string{renderRow(s, head, widths)}
	for _, row := range t.rows {
		lines = append(lines, renderRow(s, row, widths))
	}
	return strings.Join(lines, "\n")
}

// renderRow pads outside of the colour, and not at the end of the line.
func renderRow(s screen, row []cell, widths []int) string {
	var b strings.Builder
	pending := 0
	for i, c := range row {
		if c.text != "" {
			b.WriteString(strings.Repeat(" ", pending) + s.paint(c.style, c.text))
			pending = 0
		}
		pending += widths[i] - c.width() + columnGap
	}
	return b.String()
}
