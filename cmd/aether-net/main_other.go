//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "aether-net: sandboxes have networks on Linux alone")
	os.Exit(1)
}
