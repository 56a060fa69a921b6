#!/usr/bin/env bash
# The node and other proxies side by side: every workload through all of them, in turn, in one run.
#
#   bash testing/benchmarks/peers.sh [FOLDER]
#
# Writes what session-bench said (every phase and its tables, and JSON) to FOLDER, or a new one in /tmp, and prints one table of all
# at the end (FOLDER/table.md).
# nginx and haproxy are taken part where they are installed; any other proxy by MOONBRIDGE_PEER_<NAME>='COMMAND', which is run with
# LISTEN and BACKEND (host:port) in its environment: testing/benchmarks/README.md.
#   WORKLOADS, LAYOUTS, REPEATS, SECONDS_A_PHASE, MODE: what is run; see below.   OPTIONS: more options for session-bench.
set -euo pipefail
cd "$(dirname "$0")/../.."

workloads=${WORKLOADS:-burst32 w16 w1 fanout}
layouts=${LAYOUTS:-same split}
repeats=${REPEATS:-7}
seconds=${SECONDS_A_PHASE:-3}
mode=${MODE:-initial}
read -ra options <<<"${OPTIONS:---user-part}"
results=${1:-$(mktemp -d /tmp/peers.XXXXXX)}
mkdir -p "$results"

paths=direct,proxied
PATH=$PATH:/usr/sbin
has() {
    if command -v "$1" >/dev/null; then
        paths+=,$1
    else
        echo "Without $1, which is not installed: apt-get install $2" >&2
    fi
}
has nginx "nginx-light libnginx-mod-stream"
has haproxy haproxy
for variable in "${!MOONBRIDGE_PEER_@}"; do
    name=${variable#MOONBRIDGE_PEER_}
    name=${name,,}
    paths+=,${name//_/-}
done
[ -n "${!MOONBRIDGE_PEER_@}" ] || echo "Without any other Minecraft proxy: MOONBRIDGE_PEER_<NAME>='COMMAND' adds one (testing/benchmarks/README.md)" >&2

cargo build --release --locked -p moonbridge-cli -p moonbridge-testing
built=${CARGO_TARGET_DIR:-target}/release
echo "Paths: $paths; what is said in full is in $results"
for layout in $layouts; do
    for workload in $workloads; do
        run=$results/$layout-$workload
        echo "$layout, $workload …"
        "$built/session-bench" --moonbridge "$built/moonbridge" --workload "$workload" --layout "$layout" --mode "$mode" --paths "$paths" \
            --repeats "$repeats" --seconds "$seconds" --json "${options[@]}" >"$run.json" 2>"$run.txt" || { tail -n 5 "$run.txt" >&2; exit 1; }
    done
done

files=()
for layout in $layouts; do
    for workload in $workloads; do
        files+=("$results/$layout-$workload.json")
    done
done
python3 testing/benchmarks/table.py "${files[@]}" | tee "$results/table.md"
