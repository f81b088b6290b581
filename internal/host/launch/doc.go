// Package launch starts the programs of other isolation systems (bwrap, runc,
// systemd-nspawn) so that they die with this one, are in a cgroup from their
// first instruction on, and find the root file system of a sandbox as a plain
// directory: an overlay in a mount namespace of their own, which leaves nothing
// behind. What the programs are told is the drivers' business.
//
// # Use
//
//	host, err := launch.Open()                // once for each driver
//	process, err := host.Start(launch.Program{
//		Path: "/usr/bin/bwrap", Args: []string{"bwrap", "--bind", host.Root(), "/", ...},
//		Files: []*os.File{in, out, errors},   // descriptors 0, 1, 2, ...
//		Group: attach,                        // of internal/host/cgroup
//		Tree:  &launch.Tree{Layers: layers, UpperBytes: 1 << 30},
//	})
//
// # Identities
//
// A program with a Tree runs in a user namespace of its own, as its root. Started
// by root, ids 0 to 65535 there are high ids of the host that own nothing and that no
// other living sandbox has (internal/host/idrange), and files of the image are shown with
// their own ids by id-mapped mounts. Started by an ordinary user, there is one id, the
// caller's (Single).
//
// # Neighbours
//
// What sandboxes see of the host's directories they see through overlays of their own
// (internal/host/views), and started by root they have device nodes of their own, in the
// place of the host's where programs look for them: locks and watches are kept with inodes.
//
// # Limits
//
// Until it has executed its program, a child shares this program's memory: give
// its group a limit on memory after Start has returned, not before, or the kernel
// could take this program for a part of the group.
package launch
