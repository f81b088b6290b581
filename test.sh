#!/usr/bin/env bash
# Runs every test, with the race detector where a C compiler makes it possible,
# and ends with what was skipped and why. Arguments go to `go test`.
set -euo pipefail
cd "$(dirname "$0")"

race=(-race)
if ! command -v "$(go env CC)" >/dev/null 2>&1; then
  race=()
  echo "test.sh: no C compiler found: testing without the race detector (install gcc to have it)" >&2
  export CGO_ENABLED=0
else
  export CGO_ENABLED=1
  # The detector sleeps for a second at the end of each process, for what is still being
  # told; tests start their own program hundreds of times.
  export GORACE="atexit_sleep_ms=20 ${GORACE:-}"
fi
log=()
if [ -n "${AETHER_TEST_LOG:-}" ]; then
  log=(--jsonfile "$AETHER_TEST_LOG") # what ran and how it ended, for programs
fi
go build "${race[@]}" ./... # by all processors, which the tests below are not
# One package at a time: many look at the whole host (processes, mounts, memory),
# and should see nobody else's.
exec go tool -modfile=tools/go.mod gotestsum --format pkgname --format-hide-empty-pkg "${log[@]}" \
  -- "${race[@]}" -p 1 -count=1 -timeout 15m "$@" ./...
