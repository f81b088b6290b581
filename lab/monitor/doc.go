// Package monitor holds a monitor of machines against another, in one interleaved run: boots,
// forks beside loads of a snapshot, snapshots, for how long a machine stands still when it is
// copied, and what many copies hold of the host's memory. Both are drivers like any other;
// docs/drivers/aethervm.md says what was found.
package monitor
