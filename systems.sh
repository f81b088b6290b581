#!/usr/bin/env bash
# Gets the isolation systems whose drivers `make test` tests: Debian's packages,
# where root runs this on Debian, and gVisor, which has none, from its source. What
# is missing elsewhere is named, and its tests skip. AETHER_TEST_INSTALL=0 keeps
# this from changing anything.
set -euo pipefail
cd "$(dirname "$0")"

if [ "$(uname -s)" != Linux ] || [ "${AETHER_TEST_INSTALL:-1}" = 0 ]; then
  exit 0
fi

packages=()
need() { command -v "$1" >/dev/null || packages+=("$2"); }
need bwrap bubblewrap
need runc runc
need crun crun
need systemd-nspawn systemd-container
need lxc-start lxc
need dockerd docker.io
need containerd containerd
need qemu-system-x86_64 qemu-system-x86
need mkfs.ext4 e2fsprogs

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  # The lists are also for the kernel of machines, which a test fetches.
  if ((${#packages[@]})) || ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    apt-get update -qq
  fi
  if ((${#packages[@]})); then
    echo "systems.sh: installing ${packages[*]}"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" >/dev/null
  fi
elif ((${#packages[@]})); then
  echo "systems.sh: not here, so that their tests skip: ${packages[*]} (root on Debian gets them installed)" >&2
fi

if ! command -v runsc >/dev/null && [ ! -x bin/runsc ]; then
  make runsc
fi
