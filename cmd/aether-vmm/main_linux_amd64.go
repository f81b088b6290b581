// Aether-vmm is one machine: its monitor, which is started by aether, in a jail, and by
// nobody else.
package main

import (
	"fmt"
	"os"

	"aether/internal/vm/monitor"
)

func main() {
	if err := monitor.Run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "aether-vmm:", err)
		os.Exit(1)
	}
}
