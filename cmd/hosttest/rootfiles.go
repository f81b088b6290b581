package main

const (
	// unitName is the service that runs the checks. Its group is what root and the
	// user without one of their own start in.
	unitName = "hosttest.service"
	labDir   = "/lab"
	// rootLabel and labLabel are the names of the file systems.
	rootLabel = "hosttest-root"
	labLabel  = "hosttest-lab"
	// containerTar is where a root has an image for Docker.
	containerTar = "/var/lib/hosttest/container.tar"
	userName     = "ann"
	// rootVersion changes with what is done to roots beyond files and packages.
	rootVersion = 1
)

// rootFiles are all that a root has beyond its packages, by path.
var rootFiles = map[string]string{
	"/etc/systemd/system/" + unitName: `[Unit]
Description=Checks of the host lab
After=multi-user.target
SuccessAction=poweroff-immediate
FailureAction=poweroff-immediate

[Service]
Type=idle
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
ExecStartPre=/bin/mount -o ro LABEL=` + labLabel + ` ` + labDir + `
ExecStart=` + labDir + `/hosttest inside ` + labDir + `/config.json
`,
	"/etc/fstab":       "LABEL=" + rootLabel + " / ext4 rw 0 1\n",
	"/etc/hostname":    "host\n",
	"/etc/hosts":       "127.0.0.1 localhost host\n",
	"/etc/resolv.conf": "", // debootstrap has copied the host's
}

// rootLinks enable the service, and disable what would talk on its console or wait
// for a network that is not there. The profiles of AppArmor that Debian has for its
// programs take an emulated machine a minute to compile; Docker loads its own.
var rootLinks = map[string]string{
	"/etc/systemd/system/multi-user.target.wants/" + unitName: "../" + unitName,
	"/etc/systemd/system/serial-getty@ttyS0.service":          "/dev/null",
	"/etc/systemd/system/serial-getty@ttyAMA0.service":        "/dev/null",
	"/etc/systemd/system/apparmor.service":                    "/dev/null",
	"/etc/systemd/system/apt-daily.timer":                     "/dev/null",
	"/etc/systemd/system/apt-daily-upgrade.timer":             "/dev/null",
	"/etc/systemd/system/dpkg-db-backup.timer":                "/dev/null",
}

// rootUnlinks are what Debian enables and the lab starts when it is wanted, and a
// setting by which bubblewrap's package would undo that of a host.
var rootUnlinks = []string{
	"/usr/lib/sysctl.d/50-bubblewrap.conf",
	"/etc/systemd/system/multi-user.target.wants/docker.service",
	"/etc/systemd/system/multi-user.target.wants/containerd.service",
}
