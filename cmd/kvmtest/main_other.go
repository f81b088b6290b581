//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "kvmtest: the lab is a Linux machine on a Linux host")
	os.Exit(1)
}
