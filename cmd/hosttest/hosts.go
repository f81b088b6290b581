package main

// host is a machine that the lab can make, and what must be seen there.
type host struct {
	name string
	why  string // it is in the table
	root root
	// kernel is which of the root's kernels is booted.
	kernel string
	// arguments are for the kernel. A setting of sysctl needs no other disk: the
	// kernel reads "sysctl.kernel.name=value" as well.
	arguments []string
	// profile is of AppArmor, under profileName, and confines what ordinary users
	// start.
	profile string
	ways    map[string]expectation
}

// profileName is what profiles of the table call themselves.
const profileName = "hosttest"

// The kernels of a root file system.
const (
	stockKernel     = "stock"
	backportsKernel = "backports"
)

// expectation is what a way must do on a host. The zero value: every step works.
type expectation struct {
	// absent is the reason why the host has no such way.
	absent string
	// refuses has, by step, a pattern of the one line by which it is refused.
	// What stands at everything is for all steps without a pattern of their own.
	refuses map[string]string
}

const everything = "everything"

// refusal is the pattern for a step, or empty if it must work.
func (e expectation) refusal(step string) string {
	if pattern, ok := e.refuses[step]; ok {
		return pattern
	}
	return e.refuses[everything]
}

// What hosts answer that cannot do something. The remedy is part of each: a
// refusal that does not say what would mend it is a failure.
const (
	noGroups          = `may not make groups in .*\(run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes`
	noGroupsV1        = `may not make groups in .*\(run as root`
	noUserns          = `\(as root: sysctl -w kernel\.unprivileged_userns_clone=1\)`
	noUsernsByProfile = `\(AppArmor.*profile.*as root`
	noForks           = `fork`
	inContainer       = `\(.*docker run`
)

// unified is what a host with version 2 of control groups must do.
var unified = map[string]expectation{
	wayRoot:      {},
	wayUser:      {refuses: map[string]string{stepLimits: noGroups}},
	wayDelegated: {},
	wayDocker:    {refuses: map[string]string{everything: inContainer}},
}

// confined is what a host must do whose AppArmor is in the way of ordinary users.
func confined(refusal string) map[string]expectation {
	return map[string]expectation{
		wayRoot:      {},
		wayUser:      {refuses: map[string]string{everything: refusal, stepLimits: refusal + "|" + noGroups}},
		wayDelegated: {refuses: map[string]string{everything: refusal}},
		wayDocker:    {absent: "a container has a profile of its own; debian-13 has this way"},
	}
}

var hosts = []host{
	{
		name: "debian-12", why: "kernel 6.1 and control groups of version 2: the usual server",
		root: bookworm, kernel: stockKernel, ways: unified,
	},
	{
		name: "debian-12-backports", why: "the same programs under the newest kernel that the release offers",
		root: bookworm, kernel: backportsKernel, ways: unified,
	},
	{
		name: "debian-13", why: "the current release: a newer kernel, systemd and Docker",
		root: trixie, kernel: stockKernel, ways: unified,
	},
	{
		name: "debian-12-cgroup1", why: "limits by control groups of version 1, with version 2 beside, as older hosts have them",
		root: bookworm, kernel: stockKernel, arguments: []string{"systemd.unified_cgroup_hierarchy=0"},
		ways: map[string]expectation{
			wayRoot:      {},
			wayUser:      {refuses: map[string]string{stepLimits: noGroupsV1}},
			wayDelegated: {absent: "version 1 of control groups delegates no controller to users"},
			wayDocker:    {refuses: map[string]string{everything: inContainer}},
		},
	},
	{
		name: "debian-12-nouserns", why: "user namespaces are forbidden to ordinary users by Debian's own setting",
		root: bookworm, kernel: stockKernel, arguments: []string{"sysctl.kernel.unprivileged_userns_clone=0"},
		ways: map[string]expectation{
			wayRoot:      {},
			wayUser:      {refuses: map[string]string{everything: noUserns, stepLimits: noUserns + "|" + noGroups}},
			wayDelegated: {refuses: map[string]string{everything: noUserns}},
			wayDocker:    {absent: "root of a container is not the user whom the setting forbids; debian-12 has this way"},
		},
	},
	{
		name: "debian-13-apparmor", why: "AppArmor forbids ordinary users to make user namespaces",
		root: trixie, kernel: stockKernel,
		profile: "abi <abi/4.0>,\nprofile " + profileName + " flags=(attach_disconnected) {\n  allow all,\n  deny userns,\n}\n",
		ways:    confined(noUsernsByProfile),
	},
	{
		name: "debian-13-apparmor-caps", why: "AppArmor lets ordinary users make user namespaces, in which they then have no rights, as Ubuntu does",
		root: trixie, kernel: stockKernel,
		profile: "abi <abi/4.0>,\nprofile " + profileName + " flags=(attach_disconnected) {\n  allow all,\n  deny capability,\n}\n",
		ways:    confined(noUsernsByProfile),
	},
	{
		name: "debian-12-arm64", why: "another processor",
		root: bookwormARM, kernel: stockKernel,
		ways: map[string]expectation{
			wayRoot:      {refuses: map[string]string{stepTemplate: noForks}},
			wayUser:      {refuses: map[string]string{stepTemplate: noForks, stepLimits: noGroups}},
			wayDelegated: {refuses: map[string]string{stepTemplate: noForks}},
			wayDocker:    {absent: "a container forbids the same on every processor; debian-12 has this way"},
		},
	},
}

func findHost(name string) (host, bool) {
	for _, h := range hosts {
		if h.name == name {
			return h, true
		}
	}
	return host{}, false
}

func hostNames() []string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	return names
}

// small is the host for a brief run.
func (h host) small() host {
	if h.kernel == stockKernel {
		h.root = h.root.small()
	}
	return h
}
