#!/usr/bin/env bash
# Shows what bin/aether can do on a machine with nothing but Go. `make demo`
# builds it first; each command is printed before its output.
set -euo pipefail
cd "$(dirname "$0")"

show() {
  local what=$1
  shift
  printf '# %s\n$ aether %s\n' "$what" "$*"
  bin/aether "$@"
  echo
}

show "The isolation systems, best first." rank
show "A head-to-head, and why." compare aethervm firecracker --why

if [ "$(uname -s)" != Linux ]; then
  echo "Sandboxes of the built-in engine are made of Linux namespaces; this is $(uname -s)."
  exit 0
fi
if [ -x /usr/bin/python3 ]; then
  show "A command in a sandbox of its own." run -- python3 -c 'print(6*7)'
fi
show "What it sees of this machine: no user, process, home or secret of it." run -- sh -c 'id; ps -e 2>/dev/null || ls -d /proc/[0-9]*; ls -A /home; cat /etc/passwd'
show "The same for programs to read." run --timeout 5s --json -- echo hello
