// Command aether runs and judges sandboxes for agents. Only the joining of the
// command line with this build's drivers is here; everything else is elsewhere.
package main

import (
	"context"
	"os"

	"aether/cli"
	"aether/driver/all"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, all.Makers()))
}
