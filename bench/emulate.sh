#!/bin/sh
# How exact and how fast the emulated link is on this machine, as root: added delay, rate, TCP throughput
# through a FIFO with the processor time of the emulator, and the same TCP over a plain veth pair, which no
# emulation can exceed. Takes about a minute. Run it on an idle machine: the figures say so when it is not.
#
# Usage: bench/emulate.sh [exactness|tcp|all]
set -eu
cd "$(dirname "$0")/.."
part=${1:-all}
seconds=5
command -v iperf3 > /dev/null || { echo "iperf3 is missing: apt-get install iperf3" >&2; exit 2; }
cargo build --quiet --release -p tailback-live --examples
echo "$(uname -sr), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg), commit $(git rev-parse --short HEAD)"
if [ "$part" != tcp ]; then
    echo
    target/release/examples/emulate_exactness
fi
[ "$part" != exactness ] || exit 0

link() { # RATE QUEUE DELAY
    printf 'name="bench"\ntitle="bench"\n[up]\nrate="%s"\nqueue="%s"\ndelay="%s"\n[down]\nrate="%s"\ndelay="%s"\n' "$1" "$2" "$3" "$1" "$3"
}
received() { # the receiver's line of iperf3
    sed -n 's/.*sec *\([0-9.]* [A-Za-z]*Bytes\) *\([0-9.]* [A-Za-z]*bits.sec\).*receiver.*/\2/p' | tail -1
}
tcp() { # TITLE RATE QUEUE DELAY CONTROL FLOWS
    said=$(target/release/examples/emulate "$(link "$2" "$3" "$4")" --far iperf3 -s -1 \
        -- sh -c "sleep 0.3; iperf3 -c far -t $seconds -C $5 -P $6" 2> /tmp/emulate-bench.$$) || { cat /tmp/emulate-bench.$$ >&2; exit 1; }
    printf '%s\n  %s goodput\n' "$1" "$(printf '%s\n' "$said" | received)"
    grep -E 'Emulated|warning' /tmp/emulate-bench.$$ | fold -s -w 110 | sed 's/^/  /'
    rm -f /tmp/emulate-bench.$$
}
echo
tcp "TCP, 1 flow of cubic through a FIFO of 4 MB at 1 Gbit/s" "1 Gbit/s" "fifo:bytes=4MB" "0" cubic 1
tcp "TCP, 1 flow of cubic through a FIFO of 4 MB at 5 Gbit/s" "5 Gbit/s" "fifo:bytes=4MB" "0" cubic 1
tcp "TCP, 4 flows of cubic through FQ-CoDel at 1 Gbit/s, 5 ms each way" "1 Gbit/s" "fq_codel" "5 ms" cubic 4
echo "TCP, 1 flow of cubic over a plain veth pair (large segments, no emulator)"
unshare -n sh -c '
    unshare -n sleep 60 & far=$!
    trap "kill $far" EXIT
    sleep 0.2
    ip link add v0 type veth peer name v1 netns $far
    ip address add 10.77.1.1/24 dev v0; ip link set v0 up
    nsenter -t $far -n sh -c "ip address add 10.77.1.2/24 dev v1; ip link set v1 up"
    nsenter -t $far -n iperf3 -s -1 > /dev/null & sleep 0.3
    iperf3 -c 10.77.1.2 -C cubic -t "$0"' "$seconds" | received | sed 's/^/  /; s/$/ goodput/'
