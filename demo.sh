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
