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

# Forks of running processes are for x86-64 so far.
if [ ! -x /usr/bin/python3 ] || [ "$(uname -m)" != x86_64 ]; then
  exit 0
fi
export AETHER_STATE_DIR
AETHER_STATE_DIR=$(mktemp -d "${TMPDIR:-/tmp}/aether-demo-XXXXXX")
finish() {
  bin/aether template rm demo >/dev/null 2>&1 || true
  rm -rf "$AETHER_STATE_DIR"
}
trap finish EXIT

cat >"$AETHER_STATE_DIR/prime.py" <<'PYTHON'
import asyncio, decimal, email.message, fractions, http.client, json, random, statistics, urllib.request

primes = [n for n in range(2, 20_000) if all(n % d for d in range(2, int(n**0.5) + 1))]
PYTHON

echo "# Python is primed once: modules imported, data computed."
echo '$ aether template prepare demo --code python prime.py'
bin/aether template prepare demo --code python "$AETHER_STATE_DIR/prime.py"
echo
show "A fork of it goes on from there, in a sandbox of its own." run --template demo -c 'primes[-1]'

echo "# A hundred forks, one after another: each draws a prime of its own."
echo "\$ for i in \$(seq 100); do aether run --template demo -c 'random.choice(primes)'; done"
began=$(date +%s%N)
for _ in $(seq 100); do
  bin/aether run --template demo -c 'random.choice(primes)'
done | paste -sd ' ' | fold -sw 100
printf '%d ms for all of them, with a process of the command line for each\n\n' $((($(date +%s%N) - began) / 1000000))
show "Who was forked from whom, and how long each fork took." template show demo --tree
show "And gone." template rm demo

# A program with a fault and a suite that fails for it. No model is asked: what one could say is a script.
setup='mkdir /tmp/app && cd /tmp/app && echo "double() { echo \$((\$1 + 2)); }" >double.sh && cat >suite.sh <<"END"
. /tmp/app/double.sh
passed=0
for n in 1 2 3 5; do [ "$(double $n)" = $((n + n)) ] && passed=$((passed + 1)); done
echo $passed
[ $passed = 4 ]
END'
python3 - "$AETHER_STATE_DIR/script.json" <<'PYTHON'
import json, sys

def call(name, **arguments):
    return {"calls": [{"name": name, "arguments": {"sandbox": "here", **arguments}}]}

script = {"main": [call("command_run", command="cd /tmp/app && cat double.sh && sh suite.sh")]}
for n, patch in enumerate(["$1 + 1", "$1 + 3", "$1 * $1", "$1 - 2", "$1 / 2", "$1 * 2", "$1 * 3", "4"], 1):
    edit = call("file_edit", path="/tmp/app/double.sh", old="$1 + 2", new=patch)
    script[str(n)] = [edit, call("command_run", command="sh /tmp/app/suite.sh"), {"text": f"The sum should be {patch}."}]
json.dump(script, open(sys.argv[1], "w"))
PYTHON
echo "# An agent looks at a suite that fails. Eight forks of its sandbox each try a patch, and the one that passes is kept."
echo "\$ aether agent run --quiet --script script.json --setup \"\$setup\" --branch 8 --branch-at 2 --score 'sh /tmp/app/suite.sh' 'Make the suite pass.'"
bin/aether agent run --quiet --script "$AETHER_STATE_DIR/script.json" --setup "$setup" --branch 8 --branch-at 2 --score 'sh /tmp/app/suite.sh' 'Make the suite pass.'
echo
show "What each of them did, took and scored." agent show
