#!/usr/bin/env bash
# Every bound that was set for a node, measured on this machine: what it costs beside nginx, its memory, floods, logins, and the counts.
#
#   bash testing/benchmarks/goals.sh [FOLDER]
#
# Takes some 20 minutes after it has built. Needs nginx with its stream module, valgrind, two CPUs, and nothing else running on them.
# Everything that was said is in FOLDER, or a new one in /tmp; prints one table (FOLDER/goals.md) and ends with 1 if a bound is not kept.
#   REPEATS, SECONDS_A_PHASE: as in peers.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."

results=${1:-$(mktemp -d /tmp/goals.XXXXXX)}
mkdir -p "$results"
LAYOUTS=same WORKLOADS="burst32 w16 w1 fanout" OPTIONS="--user-part --allocations" bash testing/benchmarks/peers.sh "$results"

built=${CARGO_TARGET_DIR:-target}/release
say() {
    echo "$1 …"
    shift
    local file=$1
    shift
    "$@" --json >"$results/$file.json" 2>"$results/$file.txt" || { tail -n 5 "$results/$file.txt" >&2; exit 1; }
}
say "memory" memory "$built/memory-bench" --sessions 5000
say "floods" floods "$built/memory-bench" --floods
say "logins" logins "$built/login-bench" --replicas paper
echo "counts …"
status=0
cargo run --profile counts --locked -p moonbridge-counts -- --check >"$results/counts.txt" 2>&1 || status=$?
echo "$status" >"$results/counts.status"

status=0
python3 testing/benchmarks/goals.py "$results" >"$results/goals.md" || status=$?
cat "$results/goals.md"
exit "$status"
