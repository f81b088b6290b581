//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "aether-guest: it runs inside Linux sandboxes only")
	os.Exit(1)
}
