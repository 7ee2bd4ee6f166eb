#!/usr/bin/env python3
"""Processor of a server with and without segmentation offload, and `tcp_tso_win_divisor`.

Usage: sudo python3 bench/offload.py [--seed N] [--blocks N] [--tailback FILE]

After Chandele 2012, section 5.1.2 and figures 5.2.2.1 and 5.2.2.2. `tailback serve` runs in one network namespace and
`tailback test` downloads over 20 connections in another; between them is a veth pair whose sending end is shaped by the kernel's
TBF. Each end has a processor of its own: programs are bound to it, and so is the work on packets that it receives. The settings
run in random order in each block. Figures: means over the blocks with Student's 95 % interval.

A veth is no network card. With offload on, the packets stay large up to the receiver, so nobody segments them; with offload off,
TCP makes packets of one segment each. That is the server's share of the work, without a card's.
"""

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SERVER, CLIENT = "qoserver", "qoclient"
NETWORK = "10.99.7."
FLOWS = 20
SCRATCH = tempfile.mkdtemp(prefix="offload-")
# Student's t for a 95 % interval, by degrees of freedom.
STUDENT = [12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]
# Ethernet, IPv4 and TCP headers with timestamps. A super-packet has one such header in the counters of a veth, a segment on a wire each.
HEADERS = 66
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def run(command, **more):
    return subprocess.run(command, check=True, shell=isinstance(command, str), **more)


def enter(name):
    return ["ip", "netns", "exec", name]


def network():
    for name in (SERVER, CLIENT):
        run(["ip", "netns", "add", name])
    run(f"ip link add qos0 netns {SERVER} type veth peer name qoc0 netns {CLIENT}")
    for name, link, host, cpu in ((SERVER, "qos0", 1, 0), (CLIENT, "qoc0", 2, 1)):
        run(f"ip -n {name} address add {NETWORK}{host}/24 dev {link}")
        run(f"ip -n {name} link set {link} up")
        run(f"ip -n {name} link set lo up")
        # What this end receives is its own processor's work.
        queues = f"/sys/class/net/{link}/queues/rx-0/rps_cpus"
        run([*enter(name), "sh", "-c", f"echo {1 << cpu:x} > {queues}"])


def shape(rate, burst, limit):
    words = f"rate {rate} burst {burst} limit {limit}"
    run(f"tc -n {SERVER} qdisc replace dev qos0 root tbf {words}")


def offload(on):
    word = "on" if on else "off"
    for name, link in ((SERVER, "qos0"), (CLIENT, "qoc0")):
        run([*enter(name), "ethtool", "-K", link, "tso", word, "gso", word, "gro", word], stdout=subprocess.DEVNULL)


def divisor(value):
    run([*enter(SERVER), "sysctl", "-qw", f"net.ipv4.tcp_tso_win_divisor={value}"])


def sample(pid):
    """Time, busy time of processor 0, processor time of the server's process, bytes sent, packets sent, segments sent again."""
    with open("/proc/stat") as f:
        words = next(line for line in f if line.startswith("cpu0 ")).split()[1:]
    user, nice, system, _, _, irq, soft, steal = (int(w) for w in words[:8])
    with open(f"/proc/{pid}/stat") as f:
        own = f.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/net/dev") as f:
        link = next(line for line in f if "qos0" in line).split(":")[1].split()
    with open(f"/proc/{pid}/net/snmp") as f:
        names, values = [line.split()[1:] for line in f if line.startswith("Tcp:")]
    return (
        time.monotonic(),
        (user + nice + system + irq + soft + steal) * TICK_S,
        (int(own[11]) + int(own[12])) * TICK_S,
        int(link[8]),
        int(link[9]),
        int(dict(zip(names, values))["RetransSegs"]),
    )


def download(tailback, server, seconds):
    """Figures of the time in which the download ran at its full rate."""
    command = [
        *enter(CLIENT), "taskset", "-c", "1", tailback, "test", f"{NETWORK}1", "--phases", "idle,down",
        "--flows", str(FLOWS), "--longest", f"{seconds}s", "--budget", "20GB", "--json", "--output", f"{SCRATCH}/{time.monotonic_ns()}.rec",
    ]
    test = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    samples = [sample(server.pid)]
    while test.poll() is None:
        time.sleep(0.25)
        samples.append(sample(server.pid))
    if test.returncode not in (0, 1):
        sys.exit(f"tailback test failed with {test.returncode}: {test.stderr.read()}")
    rates = [(b[3] - a[3]) / (b[0] - a[0]) for a, b in zip(samples, samples[1:])]
    full = [i for i, rate in enumerate(rates) if rate > 0.7 * max(rates)]
    # The longest run of samples at the full rate, without its ends.
    runs, begin = [], 0
    for i in range(1, len(full) + 1):
        if i == len(full) or full[i] != full[i - 1] + 1:
            runs.append(full[begin:i])
            begin = i
    longest = max(runs, key=len)[1:-1]
    if len(longest) < 8:
        sys.exit(f"the download had its full rate for {len(longest) / 4} s only")
    a, b = samples[longest[0]], samples[longest[-1] + 1]
    took, busy, own, sent, packets, again = (y - x for x, y in zip(a, b))
    packet, sent = sent / packets, sent - HEADERS * packets
    return {
        "rate": sent * 8 / took / 1e6,
        "busy": busy / took * 100,
        "own": own / took * 100,
        "per_gb": busy / (sent / 1e9),
        "packet": packet,
        "again": again / (sent / 1e9),
    }


def mean(values):
    if len(values) < 2:
        return f"{values[0]:.3g}"
    error = STUDENT[min(len(values) - 2, 9)] * statistics.stdev(values) / len(values) ** 0.5
    return f"{statistics.mean(values):.3g} ± {error:.2g}"


def table(title, heads, rows):
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def blocks(settings, count, rng, one):
    found = {name: [] for name in settings}
    for number in range(count):
        order = list(settings)
        rng.shuffle(order)
        for name in order:
            found[name].append(one(settings[name]))
            print(f"block {number + 1} of {count}, {name}: {found[name][-1]['rate']:.0f} Mbit/s", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--tailback", default="target/release/tailback")
    given = parser.parse_args()
    if os.cpu_count() < 2:
        sys.exit("each end needs a processor of its own: this host has one")
    tailback, rng = os.path.abspath(given.tailback), random.Random(given.seed)
    server = None
    # The namespaces go in any case.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        network()
        serve = [*enter(SERVER), "taskset", "-c", "0", tailback, "serve", "--bytes-per-hour", "500GB", "--total-bytes-per-hour", "500GB"]
        server = subprocess.Popen(serve, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        print(f"seed {given.seed}, {given.blocks} blocks, {FLOWS} connections, Linux {os.uname().release}")

        def with_offload(on):
            offload(on)
            shape("1gbit", "256k", "2m")
            return download(tailback, server, 8)

        found = blocks({"on": True, "off": False}, given.blocks, rng, with_offload)
        keys = ("rate", "packet", "busy", "own", "per_gb")
        rows = [[name, *(mean([f[key] for f in all_]) for key in keys)] for name, all_ in found.items()]
        heads = ["offload", "Mbit/s of payload", "bytes a packet", "server busy, %", "its process, %", "CPU-s per GB"]
        table("Server at 1 Gbit/s", heads, rows)
        ratio = [b["per_gb"] / a["per_gb"] for a, b in zip(found["on"], found["off"])]
        print(f"\nWithout offload the server needs {mean(ratio)} times the processor time per byte.")

        def with_divisor(setting):
            on, value = setting
            offload(on)
            divisor(value)
            shape("100mbit", "64k", "500k")
            return download(tailback, server, 8)

        settings = {f"on, divisor {value}": (True, value) for value in (1, 3, 8)}
        settings["off, divisor 3"] = (False, 3)
        found = blocks(settings, given.blocks, rng, with_divisor)
        keys = ("rate", "packet", "again", "busy")
        rows = [[name, *(mean([f[key] for f in all_]) for key in keys)] for name, all_ in found.items()]
        heads = ["offload", "Mbit/s of payload", "bytes a packet", "segments sent again per GB", "server busy, %"]
        table("A queue of 40 ms at 100 Mbit/s", heads, rows)
    finally:
        shutil.rmtree(SCRATCH, ignore_errors=True)
        if server:
            server.terminate()
            server.wait()
        for name in (SERVER, CLIENT):
            subprocess.run(["ip", "netns", "del", name], check=False)


if __name__ == "__main__":
    main()
