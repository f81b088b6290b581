// Package list has the named lists of what a sandbox with egress may reach, so that
// nobody has to type hosts: packages, which is what the package managers of this host
// use, and the files of an operator. Whether a connection is allowed is not decided
// here, but by the policy that takes the entries.
//
// No registry is known by name. What a tool uses is asked of the tool, defaults
// included, and what an index points to is asked of the index. Answers of both are
// taken as hostile: they are bounded, and nothing that an index says makes a private
// address reachable.
package list
