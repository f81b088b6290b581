package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Node is one sandbox of the fork tree.
type Node struct {
	ID string `json:"id"`
	// Parent is what it was forked from; empty for a template's own sandbox.
	Parent string `json:"parent,omitempty"`
	// Template is the name of the template at the root.
	Template string    `json:"template"`
	Born     time.Time `json:"born"`
	// Took is how long the fork took that made it, and Batch of how many children;
	// for a template, how long its preparation took.
	Took  time.Duration `json:"took_ns"`
	Batch int           `json:"batch,omitempty"`
	// Ended is when it ended; nil while it lives.
	Ended *time.Time `json:"ended,omitempty"`
}

// maxEnded is how many sandboxes are remembered that have ended.
const maxEnded = 4096

// tree remembers who was forked from whom.
type tree struct {
	mu       sync.Mutex
	nodes    map[string]*Node
	children map[string]int // that are remembered, by parent
	ended    []string       // oldest first
}

func (t *tree) add(n Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes == nil {
		t.nodes, t.children = map[string]*Node{}, map[string]int{}
	}
	t.nodes[n.ID] = &n
	t.children[n.Parent]++
}

// end notes the end of a sandbox, and forgets the oldest that are of no use for
// telling where a living one comes from.
func (t *tree) end(id string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.nodes[id]
	if n == nil || n.Ended != nil {
		return
	}
	n.Ended = &at
	t.ended = append(t.ended, id)
	if len(t.ended) > maxEnded {
		t.forgetOne()
	}
}

func (t *tree) forgetOne() {
	for i, id := range t.ended {
		if t.children[id] == 0 {
			parent := t.nodes[id].Parent
			if t.children[parent]--; t.children[parent] == 0 {
				delete(t.children, parent)
			}
			delete(t.nodes, id)
			t.ended = slices.Delete(t.ended, i, i+1)
			return
		}
	}
}

// branch adds a sandbox whose parent is in the tree.
func (t *tree) branch(n Node) {
	t.mu.Lock()
	parent := t.nodes[n.Parent]
	t.mu.Unlock()
	if parent != nil {
		t.add(n)
	}
}

// below gives the nodes that descend from one, and that one, as list does.
func (t *tree) below(root string) []Node {
	kin := map[string]bool{root: true}
	return slices.DeleteFunc(t.list(), func(n Node) bool {
		kin[n.ID] = kin[n.ID] || kin[n.Parent]
		return !kin[n.ID]
	})
}

// list gives all nodes, oldest first; a parent comes before its children.
func (t *tree) list() []Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Node, 0, len(t.nodes))
	for _, n := range t.nodes {
		list = append(list, *n)
	}
	slices.SortFunc(list, func(a, b Node) int {
		return cmp.Or(a.Born.Compare(b.Born), cmp.Compare(a.ID, b.ID))
	})
	return list
}
