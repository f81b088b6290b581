package nspawn

const (
	// Variables by which the shell is told where the cgroup and the root are.
	groupVariable = "AETHER_GROUP"
	rootVariable  = "AETHER_ROOT"
	// runDir becomes /run inside.
	runDir = "run"
)

// prepare makes the host as nspawn wants it:
//
//   - a /run in which it can keep its locks;
//   - a /run for the sandbox that is bounded, with the mount in it that nspawn
//     changes later, and what it hides parts of /proc by;
//   - a /usr in the image, without which it takes it for a mistake;
//   - its two groups, each with a list of processes that is a plain file: nobody is
//     moved, so that everything stays in the cgroup with the limits;
//   - on cgroups of version 1, those two as the hierarchy of systemd, and no other;
//   - no further user namespaces: its filter cannot tell one clone from another.
const prepare = `mount -t tmpfs -o size=1m,mode=755 none /run
mkdir run
mount -t tmpfs -o size=1m,mode=755 none run
mkdir -p run/host run/systemd/inaccessible/dir
mount --bind run/host run/host
: >run/systemd/inaccessible/reg
chmod 0 run/systemd/inaccessible/*
test -d "$AETHER_ROOT/usr" || mkdir "$AETHER_ROOT/usr"
mkdir group
mount --bind "$AETHER_GROUP" group
for name in payload supervisor; do
	: >$name
	mount --bind $name group/$name/cgroup.procs
done
if test -e group/tasks; then
	mount -t tmpfs -o size=4k none /sys/fs/cgroup
	mkdir /sys/fs/cgroup/systemd
	mount --rbind group /sys/fs/cgroup/systemd
else
	mount --rbind group "$AETHER_GROUP"
fi
unset AETHER_GROUP AETHER_ROOT
echo 0 >/proc/sys/user/max_user_namespaces`
