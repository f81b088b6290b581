// Package isolation measures how well a sandbox is kept from its host. It makes one by a
// driver, plants canaries on the host (a process, a file, sockets), has the program
// aether-probe look for them and for everything else from inside, judges each of a hundred
// named probes as safe, unsafe or unknown, and gives a score. docs/lab-isolation.md has the
// table of probes and the function. What a probe does inside is internal/host/isolationprobe.
package isolation
