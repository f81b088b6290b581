#!/usr/bin/env bash
# Repeats what goes wrong seldom: the long tests at their full counts, without the
# race detector, which would only make them fewer; then every fuzz target for 100
# seconds. SHARE=N does the Nth part of all that; PART=long or PART=fuzz only the one or
# the other.
set -euo pipefail
cd "$(dirname "$0")"
share=${SHARE:-1} part=${PART:-}
export AETHER_TEST_SOAK=$share CGO_ENABLED=0
export GOFLAGS="${GOFLAGS:-} -vet=off" # make check vets

# The long tests, by package.
long() {
  local package=$1 names=$2
  [ "$part" != fuzz ] || return 0
  # A name that is none would look as if it had passed.
  if [ "$(go test -list "^($names)\$" "$package" | grep -c '^Test')" != "$(tr '|' '\n' <<<"$names" | wc -l)" ]; then
    echo "soak.sh: not all of $names are in $package" >&2
    exit 1
  fi
  go test -count=1 -timeout 4h -run "^($names)\$${3:-}" "$package"
}
long ./driver/cell 'TestThousandAtOnce|TestNetworksAtOnce|TestNetworksInTurn|TestNetworksKilledAtAnyMoment|TestTenThousandInTurn|TestKilledAtAnyMoment|TestForkInTheMiddleOfAComputation|TestForksInTurn|TestForksAtOnce'
long ./driver/bubblewrap TestConformance '/^killed$'
long ./engine 'TestKilledAtAnyMoment|TestKilledAtEveryWrite|TestFullDiskAtEveryWrite|TestCrowd|TestPythonGoesOn'
long ./image TestKilledUnpackLeavesNothing
long ./internal/host/inroot TestSwappedParents
long ./cmd/aether 'TestE2BStreams|TestE2BCrowd'

[ "$part" != long ] || exit 0

# Each package is built once, instrumented, and its binary says which targets it has;
# they are run while the next package is built. Three share a processor: what counts
# is that each is run, and for how long.
seconds=$(((100 + share - 1) / share))
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
targets() {
  local dir binary
  for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
    binary=$bin/${dir//\//-}.test
    go test -c -fuzz . -o "$binary" "$dir" >&2
    (cd "$dir" && "$binary" -test.list '^Fuzz') | sed "s|\$| $dir $binary $seconds|"
  done
}
fuzz() {
  local name=$1 dir=$2 binary=$3 seconds=$4 out
  cd "$dir"
  if ! out=$("$binary" -test.run '^$' -test.fuzz "^$name\$" -test.fuzztime "${seconds}s" -test.parallel 1 -test.fuzzcachedir "$binary.cache/$name" 2>&1); then
    # Before Go 1.27 the end of the time may be told as a failure (go.dev/issue/75804);
    # a real one is told with its input, or with another reason.
    if [ "$(sed -n '/^--- FAIL/,$p' <<<"$out" | sed '1d' | tr -d ' \n')" != contextdeadlineexceededFAIL ]; then
      printf '%s\n' "$dir: $out" >&2
      return 1
    fi
  fi
  echo "$name in $dir: $seconds seconds, $(grep -o 'execs: [0-9]*' <<<"$out" | tail -1)"
}
export -f fuzz
targets | xargs -r -P "$((3 * $(nproc)))" -L1 bash -c 'fuzz "$@"' _
