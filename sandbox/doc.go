// Package sandbox is Aether's vocabulary: what a sandbox is asked to be (Spec),
// what an isolation system must be able to do (Driver, Instance and the optional
// interfaces), what a host may say about it (Report) and how things fail (Error).
// It holds no behaviour beyond validation and imports nothing else of Aether.
//
// # What a sandbox is
//
// A sandbox is one root file system, one set of processes and one set of limits
// behind one Boundary. Everything that happens inside it (running commands,
// files, terminals, watches) goes through the guest service, which is written
// once and reached with Instance.Dial; a driver only makes, joins and removes the
// place in which that service works. A driver therefore has no Exec method.
//
// # Lifecycle
//
// A Driver is a value made once for the life of the program. Info never blocks
// and never fails. Probe says whether the driver can run on this host and, where
// it cannot, why and what would mend it; it must answer within two seconds,
// start nothing that outlives the call, and never hang on a broken facility (a
// /dev/kvm that exists but cannot run guests is found out).
//
// Create turns a Spec into an Instance whose guest service answers. It either
// returns a living Instance or an error and nothing: no process, mount, cgroup,
// network device, namespace or file is left behind by a failed Create. The
// context bounds the creation only; cancelling it later does not touch the
// Instance. A Spec that asks for something that the driver cannot enforce is
// refused (Unsupported), never quietly weakened: a caller that wants no memory
// limit leaves Memory at zero, and a driver that cannot limit memory refuses a
// Spec where it is set.
//
// A living Instance may be used from many goroutines. Dial opens one more
// connection to the guest service; the caller closes it. Stats answers what is
// known now; a value that the driver cannot know is absent (nil), never zero.
// Wait blocks until the sandbox has ended for whatever reason (destroyed, its
// lifetime over, killed by the host, out of memory) and says which; it may be
// called by many, before and after the end, and always gives the same answer.
// The end of the context ends the waiting, not the sandbox.
//
// Destroy ends every process of the sandbox and releases everything that Create
// acquired. It is idempotent, may be called during any other call (which then
// fails with NotFound or the connection's end) and returns only when nothing is
// left. It does its work even when its context is already cancelled, on a
// deadline of its own: a leak is worse than a late answer.
//
// If the whole program is killed at any instant, the kernel or the next start of
// the program removes what is left. Drivers arrange for the former where they
// can (parent-death signals, namespaces that die with their last process) and
// implement Reaper for the latter.
//
// # Capabilities
//
// Three different questions never share an answer. Whether a driver implements
// a verb is told by type assertion on the optional interfaces (Pauser,
// Snapshotter, Restorer, Forker). Whether this host permits it is told by Probe.
// How well it does is told by measurement, elsewhere. Each optional interface
// states its Fidelity, so that a snapshot of files is never mistaken for a
// snapshot of memory.
//
// # Errors
//
// Every error that a caller may decide on carries a Class. Front doors (the
// command line, HTTP, MCP) map classes once each; nothing else of an error is
// interpreted. An Error also says whether trying again may help and what to do.
package sandbox
