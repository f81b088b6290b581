package cell

import (
	"fmt"
	"path"
	"slices"

	"aether/sandbox"
)

// keptMount is where a cell was shown something of the host. What that was is not kept:
// whoever restores the cell says what is there now.
type keptMount struct {
	Target   string `json:"target"`
	Writable bool   `json:"writable,omitempty"`
}

func keptMounts(mounts []sandbox.Mount) (list []keptMount) {
	for _, m := range mounts {
		list = append(list, keptMount{path.Clean(m.Target), m.Writable})
	}
	return list
}

// hasMounts refuses to let processes go on in a cell without a mount that they may have
// files of: under its path the image may have others.
func (i *instance) hasMounts(kept *processImage) error {
	if len(kept.Commands) == 0 {
		return nil
	}
	given := keptMounts(i.spec.Mounts)
	for _, m := range kept.Mounts {
		if slices.Contains(given, m) || slices.Contains(given, keptMount{m.Target, true}) {
			continue
		}
		return &sandbox.Error{Class: sandbox.Conflict, Field: "mounts", Remedy: "give it again, or restore the files alone",
			Reason: fmt.Sprintf("its processes ran with a mount on %.200q (writable: %v), which is not given again", m.Target, m.Writable)}
	}
	return nil
}
