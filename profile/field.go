package profile

import "aether/sandbox"

// field is the judgment of the rest of the field, laid out as core.
var field = []entry{
	{
		name: "cell", aliases: []string{"native", "namespaces"},
		boundary: sandbox.ProcessBoundary,
		scores:   Scores{98, 98, 45, 80, 90},
		evidence: [...]string{
			"No daemon, image or re-executed binary on the way: one clone3 makes the namespaces, another enters with the command. `make bench` times that beside bwrap, crun and runc on the host at hand.",
			"No guest kernel and no agent inside: what runs in an idle cell is a PID 1 of a few bytes, asleep. A test keeps 1000 alive at once, and `make bench` prints the memory of each.",
			"Four layers (namespaces, cgroups, seccomp, Landlock) on the host's one kernel: more depth than a plain container, and still a kernel bug away from the host.",
			"A running cell is forked live, on pages shared copy-on-write, trees and threads included, and its files are kept as layers; tests hold both. Open connections are refused. `aether bench fork` times it.",
			"Commands, terminals, files and watches over one wire, which a published E2B client drives unchanged in a test, with nothing to prepare. The agent tools shared with aethervm are scored by design.",
		},
		byDesign: []Axis{AgentControl},
	},
	{
		name:     "crun",
		boundary: sandbox.ProcessBoundary,
		scores:   Scores{95, 95, 35, 40, 40},
		evidence: [...]string{
			"A runtime in C that does not re-execute itself: `crun run` of a trivial command took 6.5 to 9 ms on 2 loaded cores, about half of runc's time.",
			"No daemon, and nothing of the runtime stays resident beside a detached container's own processes.",
			"One shared kernel, and the caller writes the walls: a config.json that lists no seccomp filter gets none.",
			"Checkpoint and restore go through CRIU (3.15 or newer, where built in): whole images, no shared pages, no branching.",
			"The 5 verbs of the OCI runtime specification (create, start, state, kill, delete) on a command line; the rest is glue.",
		},
		notes: &FieldNotes{3, 5, 4},
	},
	{
		name:     "youki",
		boundary: sandbox.ProcessBoundary,
		scores:   Scores{93, 95, 37, 35, 40},
		evidence: [...]string{
			"Its own benchmark has 112 ms from creation to deletion, between crun's 47 ms and runc's 225 ms on the same machine.",
			"As crun: no daemon, and the host's kernel and page cache shared by all.",
			"Rust takes memory errors out of the runtime, which is a hair better than crun; behind it is the same shared kernel.",
			"A checkpoint can be written through CRIU, but restoring one is still an open task of the project: half of the pair.",
			"The 5 OCI verbs on a command line, and a Rust library (libcontainer) for programs that embed it; nothing for agents.",
		},
		notes: &FieldNotes{3, 5, 4},
	},
	{
		name: "bubblewrap", aliases: []string{"bwrap"},
		boundary: sandbox.ProcessBoundary,
		scores:   Scores{98, 98, 40, 5, 30},
		evidence: [...]string{
			"Set-up is a few system calls: `bwrap --unshare-all` around a trivial command took 2.5 to 3.5 ms on 2 loaded cores, process start included.",
			"One small process beside the command, with no daemon, image store or network stack to carry.",
			"Unprivileged by construction and the base of every Flatpak; on one shared kernel, with a seccomp filter only if the caller compiles one.",
			"No verb for state at all: nothing can be paused, kept, restored or forked, and only files on writable mounts remain.",
			"A command line and no list of what runs; --json-status-fd tells a process id and an exit code, and that is the whole interface.",
		},
		notes: &FieldNotes{3, 5, 5},
	},
	{
		name: "systemd-nspawn", aliases: []string{"nspawn"},
		boundary: sandbox.ProcessBoundary,
		scores:   Scores{90, 92, 40, 25, 40},
		evidence: [...]string{
			"Part of systemd, so there is nothing to install; `systemd-nspawn --as-pid2` around a trivial command took 65 ms on 2 loaded cores.",
			"One supervisor process for each container over the host's kernel; booting a whole init inside adds that init's services.",
			"Namespaces and a default list of allowed system calls on one shared kernel; user namespaces are asked for, not given by default.",
			"--ephemeral and `machinectl clone` copy a file tree (at once on btrfs); memory is never kept.",
			"machinectl and the D-Bus interface org.freedesktop.machine1, made for an administrator of a systemd host.",
		},
		notes: &FieldNotes{3, 5, 5},
	},
	{
		name: "incus", aliases: []string{"lxc", "lxd"},
		boundary: sandbox.ProcessBoundary,
		scores:   Scores{75, 85, 50, 60, 60},
		evidence: [...]string{
			"A system container boots a whole init and is ready in seconds, though `incus launch` itself answered in 232 ms on 2 loaded cores.",
			"No guest kernel, but every container runs an init and its services, so it weighs more than a single process.",
			"Unprivileged by default (root inside is no user outside), with AppArmor and seccomp: the best walls that a shared kernel has in this list.",
			"Snapshots and copies are instant on ZFS and btrfs and hold files; keeping memory needs CRIU, which few whole systems survive.",
			"A REST API on a unix socket or HTTPS, with events and exec over websockets: complete, and made for operators.",
		},
		notes: &FieldNotes{3.5, 5, 4},
	},
	{
		name: "vz", aliases: []string{"virtualization-framework", "vfkit", "tart"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{75, 65, 85, 60, 40},
		evidence: [...]string{
			"VZLinuxBootLoader starts a kernel with no firmware in the way; a whole guest boot each time keeps it behind the microVMs' 125 ms.",
			"Each machine has a kernel and memory of its own, with ballooning; macOS guests are held to 2 on a host by Apple's licence.",
			"Apple's own hypervisor, with every machine in a separate, sandboxed system process; macOS hosts only.",
			"Machine state can be saved and restored since macOS 14; no verb branches a running machine, and APFS clones cover only disks.",
			"A Swift and Objective-C interface behind the entitlement com.apple.security.virtualization; vfkit and tart wrap it into commands.",
		},
		notes: &FieldNotes{5, 5, 4},
	},
	{
		name: "lima", aliases: []string{"limactl"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{35, 40, 85, 35, 50},
		evidence: [...]string{
			"`limactl start` boots a full distribution through cloud-init and waits for ssh: tens of seconds, not the 100 ms of an agent loop.",
			"An instance is given up to 4 CPUs and 4 GiB by default, so a laptop holds a few.",
			"A whole machine on vz or QEMU; the default template mounts the home directory read-only, which untrusted code must not see.",
			"`limactl snapshot` is experimental and works on QEMU alone; on vz there is none.",
			"limactl lists as JSON, takes YAML templates and forwards ports and files; behind them is ssh, which an agent must script.",
		},
		notes: &FieldNotes{5, 4, 5},
	},
	{
		name: "orbstack", aliases: []string{"orb"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{70, 70, 80, 30, 45},
		evidence: [...]string{
			"By its maker's account the shared machine is up in 2 s; after that a new Linux machine starts at a container's pace.",
			"One virtual machine with one kernel carries every container and Linux machine, and gives unused memory back to macOS.",
			"The Mac is behind hardware virtualization, but sandboxes among themselves share one kernel: below one machine each.",
			"Machines are cloned, exported and imported as files; no verb keeps or branches memory.",
			"The orb command and a Docker-compatible socket; commercial, closed source, and macOS only, with no tools for agents.",
		},
		notes: &FieldNotes{5, 5, 5},
	},
	{
		name:     "utm",
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{30, 35, 85, 50, 35},
		evidence: [...]string{
			"A full machine from firmware to desktop behind a window, which takes many seconds: QEMU's own boot and a desktop's.",
			"A QEMU (or vz) process with the guest's whole memory for each machine; made for a few machines on a desk.",
			"QEMU on Apple's hypervisor inside the macOS app sandbox: two walls, with QEMU's device surface behind the first.",
			"Suspend and resume, and a disposable mode that drops changes; QEMU's snapshots lie beneath, but utmctl has no verb for them.",
			"utmctl and AppleScript start, stop, clone and run commands, through an app that must be open on a user's desktop.",
		},
		notes: &FieldNotes{5, 4, 3},
	},
}
