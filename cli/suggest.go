package cli

import "strings"

// maxSuggest bounds the names that are worth comparing.
const maxSuggest = 40

// nearest finds the known name that s most probably means: one that it begins,
// or the one with the fewest typing errors, up to a third of its letters.
func nearest(s string, known []string) (string, bool) {
	s = strings.ToLower(s)
	if len(s) < 2 || len(s) > maxSuggest {
		return "", false
	}
	best, found := max(1, len(s)/3)+1, ""
	for _, name := range known {
		if d := mistakes(s, strings.ToLower(name)); d < best {
			best, found = d, name
		}
	}
	return found, found != ""
}

func mistakes(s, name string) int {
	if strings.HasPrefix(name, s) {
		return 1
	}
	return distance(s, name)
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbour on the way from a to b.
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+differ(a[i], b[j]))
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
