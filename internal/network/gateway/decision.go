package gateway

import (
	"time"

	"aether/sandbox"
)

func (g *Gateway) tell(d sandbox.NetworkDecision) {
	if g.opts.Decided != nil {
		d.Time = time.Now()
		g.opts.Decided(d)
	}
}
