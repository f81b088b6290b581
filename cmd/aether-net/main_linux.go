// Aether-net holds the network of sandboxes: the gateways to whatever their policies
// allow. It is started by aether, in a jail, and by nobody else.
package main

import (
	"log/slog"
	"os"

	"aether/internal/network/process"
)

// control is the descriptor that connects it to who started it.
const control = 3

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := process.Run(control, log); err != nil {
		log.Error("aether-net", "err", err)
		os.Exit(1)
	}
}
