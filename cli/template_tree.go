package cli

import (
	"fmt"
	"slices"
	"time"

	"aether/engine"
)

// shownGone is how many of the children that have ended are drawn one by one; those
// before them are summed up.
const shownGone = 5

// branches are the nodes of a fork tree by their parents, oldest first.
type branches map[string][]engine.Node

// treeLines draws who was forked from whom.
func treeLines(nodes []engine.Node) (lines []string) {
	b := branches{}
	for _, n := range nodes {
		b[n.Parent] = append(b[n.Parent], n)
	}
	for _, root := range b[""] {
		lines = append(lines, fmt.Sprintf("%s  template %s, prepared in %s", visible(root.ID), visible(root.Template), milliseconds(root.Took)))
		lines = b.draw(lines, root.ID, "")
	}
	return lines
}

// draw adds what was forked from parent, and what was forked from that.
func (b branches) draw(lines []string, parent, indent string) []string {
	summed, shown := b.split(parent)
	if len(summed) > 0 {
		mark := "├─ "
		if len(shown) == 0 {
			mark = "└─ "
		}
		lines = append(lines, indent+mark+sumText(summed))
	}
	for i, n := range shown {
		mark, deeper := "├─ ", "│  "
		if i == len(shown)-1 {
			mark, deeper = "└─ ", "   "
		}
		lines = append(lines, indent+mark+nodeText(n))
		lines = b.draw(lines, n.ID, indent+deeper)
	}
	return lines
}

// split tells those that are summed up from those that are drawn: who lives, was
// forked in turn, or has ended last.
func (b branches) split(parent string) (summed, shown []engine.Node) {
	leaf := func(n engine.Node) bool { return n.Ended != nil && len(b[n.ID]) == 0 }
	gone := 0
	for _, n := range b[parent] {
		if leaf(n) {
			gone++
		}
	}
	for _, n := range b[parent] {
		if leaf(n) && gone > shownGone {
			summed = append(summed, n)
			gone--
			continue
		}
		if leaf(n) {
			gone--
		}
		shown = append(shown, n)
	}
	return summed, shown
}

func nodeText(n engine.Node) string {
	text := fmt.Sprintf("%s  forked in %s", visible(n.ID), milliseconds(n.Took))
	if n.Batch > 1 {
		text += fmt.Sprintf(" with %d others", n.Batch-1)
	}
	if n.Ended == nil {
		return text + ", lives"
	}
	return text + ", lived for " + milliseconds(n.Ended.Sub(n.Born))
}

func sumText(nodes []engine.Node) string {
	took := make([]time.Duration, len(nodes))
	for i, n := range nodes {
		took[i] = n.Took
	}
	slices.Sort(took)
	return fmt.Sprintf("%d forks before, each in %s to %s, half of them within %s", len(nodes),
		milliseconds(took[0]), milliseconds(took[len(took)-1]), milliseconds(took[(len(took)-1)/2]))
}
