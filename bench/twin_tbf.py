#!/usr/bin/env python3
"""A link that is not our code: Linux's token bucket, whose rate changes each 100 ms by netlink, and the twin of that link.

Two routers in network namespaces, with `tbf` between them in each direction; only the queue delays. The rates are random
walks from a printed seed. The truth is the bottleneck's own counter of sent bytes, read at each change. Needs root,
iproute2, pyarrow, and the built command. Takes two minutes:

    python3 bench/twin_tbf.py [SEED]
"""

import json
import math
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib

import pyarrow.parquet

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAILBACK = ROOT / "target/release/tailback"
NAMES = [f"tailback-tbf-{n}" for n in ("near", "a", "b", "far")]
STEP_S = 0.1
ETHERNET = 14
MTU = 1500


def run(*words, **options):
    return subprocess.run([str(w) for w in words], check=True, **options)


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *[str(w) for w in words]]


def network():
    """near - a - b - far; `up0` of a and `down0` of b are the bottleneck."""
    for name in NAMES:
        run("ip", "netns", "add", name)
        run(*inside(name, "ip", "link", "set", "lo", "up"))
        run(*inside(name, "sysctl", "-qw", "net.ipv4.ip_forward=1"))
    ends = [("near0", "left0"), ("up0", "down0"), ("right0", "far0")]
    for i, (left, right) in enumerate(ends):
        run("ip", "link", "add", left, "netns", NAMES[i], "type", "veth", "peer", "name", right, "netns", NAMES[i + 1])
        for name, device, host in ((NAMES[i], left, 1), (NAMES[i + 1], right, 2)):
            run(*inside(name, "ip", "addr", "add", f"10.214.{i}.{host}/24", "dev", device))
            # Packets of one segment, as a wire carries them.
            run(*inside(name, "ip", "link", "set", "dev", device, "up", "gso_max_segs", 1))
    routes = [(0, "10.214.0.2"), (1, "10.214.1.2"), (2, "10.214.1.1"), (3, "10.214.2.1")]
    for i, gateway in routes:
        run(*inside(NAMES[i], "ip", "route", "add", "default", "via", gateway))


class Bottleneck(threading.Thread):
    """Token bucket of one direction, whose rate is a random walk; keeps what its device has sent at each change."""

    def __init__(self, namespace, device, mean_bps, buffer, chance):
        super().__init__()
        self.mean_bps, self.chance, self.device, self.buffer = mean_bps, chance, device, buffer
        self.over = threading.Event()
        self.sent = []
        self.tc = subprocess.Popen(inside(namespace, "tc", "-batch", "-"), stdin=subprocess.PIPE, text=True)
        self.counter = subprocess.Popen(
            inside(namespace, "sh", "-c", f"while read x; do cat /sys/class/net/{device}/statistics/tx_bytes; done"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.set("add", mean_bps)

    def set(self, verb, bps):
        self.tc.stdin.write(f"qdisc {verb} dev {self.device} root tbf rate {bps:.0f}bit burst 1600 limit {self.buffer}\n")
        self.tc.stdin.flush()

    def run(self):
        level, due = 0.0, time.monotonic()
        while not self.over.is_set():
            level = 0.95 * level + self.chance.uniform(-0.12, 0.12)
            self.set("change", self.mean_bps * math.exp(level))
            self.counter.stdin.write("\n")
            self.counter.stdin.flush()
            self.sent.append((time.time(), int(self.counter.stdout.readline())))
            due += STEP_S
            time.sleep(max(0.0, due - time.monotonic()))

    def stop(self):
        self.over.set()
        self.join()
        for process in (self.tc, self.counter):
            process.stdin.close()
            process.wait()

    def sent_at(self, t):
        after = next(i for i, s in enumerate(self.sent) if s[0] >= t)
        (t0, b0), (t1, b1) = self.sent[after - 1], self.sent[after]
        return b0 + (b1 - b0) * (t - t0) / (t1 - t0)

    def bps(self, t0, t1):
        """Rate of whole IP packets."""
        return (self.sent_at(t1) - self.sent_at(t0)) * 8 / (t1 - t0) * MTU / (MTU + ETHERNET)


def seconds(text):
    number, unit = text.split()
    return float(number) * {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0}[unit]


def bits(text):
    number, unit = text.split()
    return float(number) * {"bit/s": 1.0, "kbit/s": 1e3, "Mbit/s": 1e6, "Gbit/s": 1e9}[unit]


def table(rate):
    """Times and rates of a link file's steps; a fixed rate is one step."""
    if isinstance(rate, str):
        return [(0.0, bits(rate))], math.inf
    steps = [(seconds(s["at"]), bits(s["rate"])) for s in rate["steps"]]
    return steps, seconds(rate["repeat"]) if "repeat" in rate else math.inf


def mean(steps, period, t0, t1):
    parts = 50
    times = [(t0 + (i + 0.5) / parts * (t1 - t0)) % period for i in range(parts)]
    return sum([bps for at, bps in steps if at <= t][-1] for t in times) / parts


def phases(recording):
    files = sorted((recording / "event").glob("*.parquet"))
    rows = [r for f in files for r in pyarrow.parquet.read_table(f).to_pylist()]
    marks = {(r["kind"], r["subject"]): r["t_ns"] / 1e9 for r in rows}
    return {p: [marks[(kind, p)] for kind in ("phase", "warmup_end", "phase_end")] for p in ("up", "down", "both")}


def measured(directory, seed):
    chance = random.Random(seed)
    means = [math.exp(chance.uniform(math.log(3e6), math.log(15e6))) for _ in range(2)]
    buffers = [int(m / 8 * math.exp(chance.uniform(math.log(0.03), math.log(0.3)))) for m in means]
    print(f"seed {seed}: {means[0] / 1e6:.2f} and {means[1] / 1e6:.2f} Mbit/s, {buffers} B", flush=True)
    network()
    sides = [Bottleneck(name, device, m, b, random.Random(f"{seed}/{device}"))
             for name, device, m, b in zip(NAMES[1:3], ("up0", "down0"), means, buffers)]
    for side in sides:
        side.start()
    words = (TAILBACK, "serve", "--listen", "10.214.2.2:7117", "--state", directory / "serve")
    server = subprocess.Popen(inside(NAMES[3], *words), stderr=subprocess.PIPE, text=True)
    print(server.stderr.readline().strip(), flush=True)
    recording = directory / "tbf.rec"
    try:
        run(*inside(NAMES[0], TAILBACK, "test", "10.214.2.2:7117", "--congestion", "cubic", "-o", recording),
            stdout=subprocess.DEVNULL)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
        for side in sides:
            side.stop()
    return recording, sides, buffers


def judge(recording, sides, buffers):
    found = subprocess.run([TAILBACK, "twin", recording, "--json"], capture_output=True, text=True)
    if not found.stdout:
        print(f"no twin: {found.stderr.strip()}")
        return
    twin = json.loads(found.stdout)
    link = tomllib.loads((recording / "twin.toml").read_text()) if (recording / "twin.toml").exists() else twin["link"]
    spans = phases(recording)
    print("| | asked | measured |\n|---|---|---|")
    for side, name, buffer in zip(sides, ("up", "down"), buffers):
        begin, warm, end = spans[name]
        steps, period = table(link[name]["rate"])
        errors, t = [], warm
        while t + STEP_S < end:
            truth = side.bps(t, t + STEP_S)
            errors.append(mean(steps, period, t - begin, t - begin + STEP_S) / truth - 1)
            t += STEP_S
        rmse = math.sqrt(sum(e * e for e in errors) / len(errors))
        print(f"| {name}: rate at 100 ms, {len(steps)} steps | 5 % | {100 * rmse:.1f} % |")
        figure = twin[name]["buffer_bytes"]
        value = figure.get("value")
        print(f"| {name}: buffer, {buffer} B | 2 % | {figure if value is None else f'{100 * (value / buffer - 1):+.1f} %'} |")
        print(f"| {name}: discipline | fifo or cannot tell | {twin[name]['discipline']} |")
    for c in twin["compared"]:
        if c["held_out"]:
            print(f"| both, {c['direction']}: p95, W1 / p95, score | 12 %, 0.06, 1.5 | {100 * c['p95_error']:+.1f} %, "
                  f"{c['w1_ms'] / c['link_ms'][1]:.3f}, {c['score']:.1f} |")
            if r := c.get("replayed"):
                print(f"| the same with its capacity | | {100 * r['p95_error']:+.1f} %, {r['w1_ms'] / c['link_ms'][1]:.3f}, "
                      f"{r['w1_ms'] / max(r['floor_ms'], 1e-3):.1f} |")
    print(f"\nThe twin is: {twin['trust']}. {' '.join(twin['because'])}")


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else time.time_ns() % 1_000_000
    with tempfile.TemporaryDirectory() as directory:
        try:
            judge(*measured(pathlib.Path(directory), seed))
        finally:
            for name in NAMES:
                subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


main()
