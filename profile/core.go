package profile

import "aether/sandbox"

// core is the judgment of the core seven. Scores are start latency, density,
// isolation, snapshotting, agent control; evidence has a line for each.
var core = []entry{
	{
		name: "aethervm", aliases: []string{"aether", "hypermachine"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{80, 85, 80, 90, 95},
		evidence: [...]string{
			"Scored by design: a sandbox is forked copy-on-write from a warm template and skips the boot; only a host's first template pays for one whole boot.",
			"Scored by design: one base template backs the whole fleet page by page, so a fork costs the pages that it dirties and not a guest's full memory.",
			"A guest kernel of its own behind KVM, in a jailed monitor with 42 system calls, three devices and no network card; no years in production behind it: below Firecracker and QEMU for that.",
			"A running machine is forked live: memory is sealed and shared page by page, forks of forks 16 deep, identities renewed before anything runs; checksummed snapshots restore by mapping.",
			"Scored by design: about 30 MCP tools, the same set in the formats of 3 providers (OpenAI, Anthropic, Gemini), an agent runtime and a REST API for agents.",
		},
		byDesign: []Axis{StartLatency, Density, AgentControl},
	},
	{
		name: "firecracker", aliases: []string{"fc"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{90, 90, 85, 80, 50},
		evidence: [...]string{
			"About 125 ms from the start request to guest user space: the cold start that other microVMs are measured against.",
			"About 5 MiB of overhead a machine from a binary of about 3 MB; a host holds thousands.",
			"KVM, a handful of virtio devices and a jailer around the monitor; it carries AWS Lambda and Fargate, which no other microVM can say.",
			"Memory and device state go to files that restore by mapping, so one snapshot seeds a pool of warm clones; it has no verb that forks a running machine.",
			"A REST API on one unix socket for each machine, and no agent tools: discovery, exec and files are left to the caller's glue.",
		},
		notes: &FieldNotes{5, 5, 4},
	},
	{
		name: "cloud-hypervisor", aliases: []string{"cloudhv", "chv"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{85, 80, 85, 80, 50},
		evidence: [...]string{
			"Boots a kernel directly, close to Firecracker's 125 ms; a PCI bus and more devices to set up keep it a step behind.",
			"About 13 MB of overhead a machine where Firecracker had 3 MB (NSDI 2020, same harness): still the microVM class.",
			"A memory-safe monitor in Rust on KVM, with a seccomp filter for each of its threads; more devices than Firecracker, far fewer than QEMU.",
			"Snapshot, restore and live migration are verbs of its API; each restore is a machine of its own, not a copy-on-write branch.",
			"Two interfaces for programs, REST on a unix socket and D-Bus, and neither made for an agent.",
		},
		notes: &FieldNotes{5, 5, 3},
	},
	{
		name: "gvisor", aliases: []string{"runsc"},
		boundary: sandbox.KernelBoundary,
		scores:   Scores{85, 85, 60, 40, 55},
		evidence: [...]string{
			"No kernel boots: its kernel is an ordinary process, so it starts like a container; `runsc run` of a trivial command took about 130 ms on 2 loaded cores.",
			"An OCI runtime of container-class density: no guest memory is set aside, though each sandbox carries a user-space kernel.",
			"The guest's system calls end in a Go kernel in user space, a smaller surface than bare namespaces; a bug in it lands on the host side, with no hardware wall behind it.",
			"`runsc checkpoint` and `restore` copy a whole image, 0.2 s out and 0.3 s in for 64 MiB; copies share no pages and nothing branches live.",
			"Docker and Kubernetes drive it through OCI by one runtime setting; it brings no agent interface of its own.",
		},
		notes: &FieldNotes{4, 4, 4},
	},
	{
		name: "kata", aliases: []string{"kata-containers"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{65, 60, 85, 40, 60},
		evidence: [...]string{
			"A machine boots, and its agent answers, before the first container of a pod starts: a microVM's boot plus a container's.",
			"Each pod pays for a guest kernel, an agent and a monitor: dearer than a bare microVM, far dearer than a container.",
			"Hardware virtualization around every pod, over a choice of monitors (QEMU, Cloud Hypervisor, Firecracker, Dragonball).",
			"Templating can start pods from one pre-booted machine, but no verb branches or restores a running pod.",
			"A containerd shim and a Kubernetes RuntimeClass: native to clusters, and an agent sees only what the cluster shows it.",
		},
		notes: &FieldNotes{5, 4, 2},
	},
	{
		name: "qemu-kvm", aliases: []string{"qemu", "kvm"},
		boundary: sandbox.HardwareBoundary,
		scores:   Scores{40, 45, 90, 85, 45},
		evidence: [...]string{
			"A full machine with firmware and a bus to enumerate takes seconds to boot; the microvm machine type cuts that, not to a microVM's 125 ms.",
			"About 131 MB of overhead a machine against Firecracker's 3 MB (NSDI 2020, same harness): far fewer fit on a host.",
			"The mature reference, on KVM since 2007; it pays for its large device surface with a long list of escapes, of which VENOM (CVE-2015-3456) is the best known.",
			"savevm keeps memory, devices and disks under one name and live migration is proven at scale; a restore is a full load, not a branch.",
			"QMP and libvirt reach everything with hundreds of commands and XML schemas: powerful, heavy, and made for administrators.",
		},
		notes: &FieldNotes{5, 4, 3},
	},
	{
		name: "docker", aliases: []string{"runc", "containers"},
		boundary: sandbox.ProcessBoundary,
		scores:   Scores{95, 95, 35, 40, 60},
		evidence: [...]string{
			"The fastest start of the core seven, a process in namespaces: `runc run` took 13 to 19 ms on 2 loaded cores; the daemon's own work comes on top.",
			"No guest kernel, and layers and page cache are shared, so the density is the highest of the core seven.",
			"Namespaces, cgroups and seccomp on one shared kernel: one bug in it reaches through (Dirty Pipe, CVE-2022-0847, wrote to shared image layers), too little for untrusted agent code.",
			"Images capture files and never memory; `docker checkpoint` needs CRIU and is still marked experimental.",
			"The HTTP API that most agent stacks drive today: control is its strength, isolation its weak point.",
		},
	},
}
