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
# Compilers collect their garbage less often, as in the Makefile; tests as they always do.
as="env -u GOGC ${GOGC:+GOGC=$GOGC}"
export GOGC=400
go build "${race[@]}" ./... # by all processors, which the tests below are not
# One package at a time: many look at the whole host (processes, mounts, memory),
# and should see nobody else's. The next is built meanwhile, and waits for a lock.
alone=(-p 1 -exec "$as")
lock=$(mktemp)
trap 'rm -f "$lock"' EXIT
if flock -o "$lock" true 2>/dev/null; then # not every flock can close the lock in what it starts
  alone=(-p 2 -exec "flock -o $lock $as")
fi
# make check vets everything, tests too, and more thoroughly than go test would again.
go tool -modfile=tools/go.mod gotestsum --format pkgname --format-hide-empty-pkg "${log[@]}" \
  -- "${race[@]}" "${alone[@]}" -vet=off -count=1 -timeout 15m "$@" ./...
