package lifecycle

import (
	"slices"
	"strings"

	"aether/sandbox"
)

// Names of the systems, in the order in which they are printed.
const (
	nameCell    = "cell"
	nameFresh   = "cell-fresh"
	nameNear    = "cell+client"
	nameService = "cell+service"
	nameBwrap   = "bwrap"
	nameCrun    = "crun"
	nameRunc    = "runc"
)

// peers are those that figures are compared with.
var peers = []string{nameBwrap, nameCrun}

// Systems are all that can take part.
func Systems() []string {
	return []string{nameCell, nameFresh, nameNear, nameService, nameBwrap, nameCrun, nameRunc}
}

// Options say how much is measured.
type Options struct {
	// Rounds is how often each system is measured.
	Rounds int
	// Idle is how many sandboxes are kept alive for the idle memory.
	Idle int
	// Only are the systems that take part.
	Only []string
}

// Validate names the field that is out of range.
func (o Options) Validate() error {
	for _, name := range o.Only {
		if !slices.Contains(Systems(), name) {
			return sandbox.Invalidf("only", "%q is not one of %s", name, strings.Join(Systems(), ", "))
		}
	}
	return nil
}
