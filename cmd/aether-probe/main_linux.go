// Command aether-probe is carried into a sandbox to try what can be reached of the host from
// there. lab/isolation runs it and judges what it says; run by hand it is of no use.
package main

import (
	"fmt"
	"os"

	"aether/internal/host/isolationprobe"
)

func main() {
	if err := isolationprobe.Main(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "aether-probe:", err)
		os.Exit(1)
	}
}
