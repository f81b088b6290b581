//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "hosttest: the lab is made of Linux machines on a Linux host")
	os.Exit(1)
}
