//go:build !linux || !amd64

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "aether-vmm: machines are run on Linux on x86-64 alone")
	os.Exit(1)
}
