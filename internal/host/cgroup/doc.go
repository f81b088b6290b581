// Package cgroup bounds, counts, freezes and kills the processes of a sandbox
// with control groups of version 1, version 2 or both at once. It does not start
// processes: it hands the spawner what a new process needs to enter a group.
//
// Detect looks at the host, Own makes one parent for the running program, and
// Create makes groups below it, which is slow and is therefore possible before
// their limits are known. What a killed program leaves behind, Reap removes.
package cgroup
