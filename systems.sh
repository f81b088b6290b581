#!/usr/bin/env bash
# Gets the isolation systems whose drivers `make test` tests, and the networks that
# `make bench` measures beside our own: Debian's packages,
# where root runs this on Debian, gVisor, which has none, from its source, and youki,
# which has none either, where there is a cargo to build it. What is missing
# elsewhere is named, and its tests skip. AETHER_TEST_INSTALL=0 keeps this from
# changing anything, and AETHER_TEST_INCUS=0 from getting Incus. `systems.sh has-incus` says by its status whether Incus is here.
set -euo pipefail
cd "$(dirname "$0")"

# has_incus looks where packages keep the daemon, out of PATH.
has_incus() {
  command -v incusd >/dev/null || compgen -G '/usr/lib*/incus/incusd' >/dev/null || [ -x /opt/incus/bin/incusd ]
}

if [ "${1:-}" = has-incus ]; then
  has_incus
  exit
fi
if [ "$(uname -s)" != Linux ] || [ "${AETHER_TEST_INSTALL:-1}" = 0 ]; then
  exit 0
fi

skip() { echo "systems.sh: not here, so that its tests skip: $*" >&2; }
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >/dev/null; }

# wants_youki: no youki is there, and this cargo can build one.
youki_rust=1.88
wants_youki() {
  ! command -v youki >/dev/null && [ ! -x bin/youki ] && command -v cargo >/dev/null &&
    printf '%s\n' "$youki_rust" "$(cargo --version | cut -d' ' -f2)" | sort -VC
}

# get_incus gets the daemon without what it needs for machines, which would bring
# another QEMU. Debian 12 has it in its backports, whose lists are used for this
# alone: the sources of the host stay as they are.
get_incus() {
  local package mirror sources
  for package in incus-base incus; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      install --no-install-recommends "$package" || skip "incus: $package cannot be installed"
      return
    fi
  done
  if [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" != bookworm ]; then
    skip "incus (this system has no package of it)"
    return
  fi
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | sed -n 1p)
  if [ -z "$mirror" ]; then
    skip "incus (no mirror of bookworm is among this system's sources)"
    return
  fi
  sources=$(mktemp -d)
  cp -r /etc/apt/sources.list.d/. "$sources"
  echo "deb $mirror bookworm-backports main" >"$sources/backports.list"
  if ! apt-get update -qq -o "Dir::Etc::sourceparts=$sources" -o APT::Get::List-Cleanup=0 ||
    ! install --no-install-recommends -o "Dir::Etc::sourceparts=$sources" incus-base; then
    skip "incus (incus-base of bookworm-backports cannot be installed)"
  fi
  rm -r "$sources"
}

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
need strace strace
need pasta passt
need slirp4netns slirp4netns
if wants_youki; then
  need cc gcc
fi

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  # The lists are also for the kernel of machines, which a test fetches.
  if ((${#packages[@]})) || ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    apt-get update -qq
  fi
  if ((${#packages[@]})); then
    echo "systems.sh: installing ${packages[*]}"
    install "${packages[@]}"
  fi
  has_incus || [ "${AETHER_TEST_INCUS:-1}" = 0 ] || get_incus
elif ((${#packages[@]})); then
  echo "systems.sh: not here, so that their tests skip: ${packages[*]} (root on Debian gets them installed)" >&2
fi

if ! command -v runsc >/dev/null && [ ! -x bin/runsc ]; then
  make runsc
fi
if wants_youki; then
  make youki || skip "youki (cargo cannot build it here)"
elif ! command -v youki >/dev/null && [ ! -x bin/youki ]; then
  skip "youki (cargo $youki_rust or newer builds it: make youki)"
fi
