package run

// Figures and facts by the names under which they are recorded.
const (
	// Start-latency: from the request to the first byte of the first command's output, at
	// so many starts at once.
	Cold    = "cold"
	Restore = "restore" // also of snapshotting, at so many MiB of live memory
	Fork    = "fork"    // the same
	Claim   = "claim"

	// Density: what each idle sandbox holds, at so many alive.
	Memory     = "memory"     // of what the host has available
	PSS        = "pss"        // in processes
	Kernel     = "kernel"     // in the kernel
	Processors = "processors" // the share of a processor that it keeps busy
	Fit        = "fit"        // how many would fill the host

	// Snapshotting, at so many MiB of live memory.
	Snapshot      = "snapshot"
	StillFork     = "still-fork"     // how long the source stood still
	StillSnapshot = "still-snapshot" // the same
	Shared        = "shared"         // the share of the live memory that a copy does not hold
	// Snapshotting, at so many copies.
	Copies     = "copies"      // the time until all are there
	CopyMemory = "copy-memory" // what each copy holds

	// Facts of snapshotting, by fork or by restore.
	Files       = "files"
	LiveMemory  = "memory"
	Descriptors = "descriptors"
	Sockets     = "sockets"     // a pair of them, and one that listens
	Connections = "connections" // over loopback

	// Isolation, with a fact for each probe from inside.
	Resistance = "resistance" // the score
	Lost       = "lost"       // the weight of all that was not safe
	HostCalls  = "host-calls" // system calls of the host's kernel that code inside reaches itself

	// Native and Through say whose interface a fact of agent-control was shown by.
	Native  = "native"
	Through = "aether"
)

// ScoredMiB is the live memory at which snapshotting is scored.
const ScoredMiB = 64
