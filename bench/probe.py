#!/usr/bin/env python3
"""What a probe costs and how exact it is: ours beside irtt's and fping's, on one veth pair, in one run.

Needs root, irtt, fping, strace, iproute2, and `cargo build --release -p tailback-live --example probe`.

    bench/probe.py --interval-ms 10 --count 200        # about 25 s
    bench/probe.py --interval-ms 1 --count 2000

The tools take turns, several rounds of them; figures are medians over the rounds, missed slots their sum.
Every tool runs under SCHED_FIFO 50 (ours asks for it by itself). Processor time and context switches are
the kernel's account of the finished process; system calls come from a second, shorter run under `strace -c`.
fping's answers come from the far kernel. irtt's and fping's round trips contain the way from program to
kernel on the near host; ours leaves that out and states it, which is why it can be below fping's.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OURS = ROOT / "target/release/examples/probe"
NEAR, FAR = "tbp-near", "tbp-far"
ADDR = "10.99.77.2"


def run(*cmd, **kw):
    return subprocess.run([str(c) for c in cmd], check=True, **kw)


def in_ns(ns, *cmd):
    return ["ip", "netns", "exec", ns, *map(str, cmd)]


def set_up():
    tear_down()
    run("ip", "netns", "add", NEAR)
    run("ip", "netns", "add", FAR)
    run("ip", "link", "add", "tbp0", "netns", NEAR, "type", "veth", "peer", "name", "tbp1", "netns", FAR)
    for ns, dev, addr in ((NEAR, "tbp0", "10.99.77.1"), (FAR, "tbp1", ADDR)):
        run(*in_ns(ns, "ip", "addr", "add", f"{addr}/24", "dev", dev))
        run(*in_ns(ns, "ip", "link", "set", dev, "up"))


def tear_down():
    for ns in (NEAR, FAR):
        subprocess.run(["ip", "netns", "del", ns], stderr=subprocess.DEVNULL, check=False)


def spent(cmd):
    """Runs a command; its output and what the kernel accounts it with."""
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(cmd, stdout=out, stderr=subprocess.STDOUT)
        _, status, use = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if child.returncode != 0:
        sys.exit(f"{' '.join(cmd)} failed with {child.returncode}:\n{text}")
    return text, (use.ru_utime + use.ru_stime) * 1e3, use.ru_nvcsw


def syscalls(cmd):
    """Calls counted by strace, threads included."""
    with tempfile.NamedTemporaryFile("r") as table:
        subprocess.run(["strace", "-c", "-f", "-o", table.name, *cmd], check=True, capture_output=True)
        total = [line for line in table if line.rstrip().endswith("total")]
    return int(total[0].split()[3 if len(total[0].split()) > 4 else 2])


def percentiles(values):
    values = sorted(values)
    return tuple(values[min(int(len(values) * q), len(values) - 1)] for q in (0.5, 0.99))


def ours(interval_ms, count):
    return in_ns(NEAR, OURS, f"{ADDR}:29111", int(interval_ms * 1e3), count)


def irtt(interval_ms, count, out):
    seconds = interval_ms * count / 1e3
    return in_ns(NEAR, "chrt", "-f", "50", "irtt", "client", "-Q", "-o", out, "-i", f"{interval_ms}ms", "-d", f"{seconds}s", ADDR)


def fping(interval_ms, count):
    return in_ns(NEAR, "chrt", "-f", "50", "fping", "-q", "-C", count, "-i", "1", "-p", f"{interval_ms:g}", "-t", "2000", ADDR)


def row(name, probes, cpu, switches, calls, p50, p99, missed, slots):
    return {
        "tool": name,
        "rtt_p50_us": round(p50, 1),
        "rtt_p99_us": round(p99, 1),
        "cpu_ms_per_1000": round(cpu * 1e3 / probes, 1),
        "switches_per_probe": round(switches / probes, 2),
        "syscalls_per_probe": None if calls is None else round(calls, 2),
        "missed": missed,
        "slots": slots,
    }


def measure(interval_ms, count, traced):
    rows = []
    per_probe = lambda long, short, n: (syscalls(long) - syscalls(short)) / n if traced else None

    text, cpu, switches = spent(ours(interval_ms, count))
    sent, missed = map(int, re.search(r"sent (\d+) received \d+ missed_slots (\d+)", text).groups())
    p50, p99 = map(float, re.search(r"rtt_us p50 (\S+) p99 (\S+)", text).groups())
    calls = per_probe(ours(interval_ms, 2 * traced), ours(interval_ms, traced), traced)
    rows.append(row("tailback", sent, cpu, switches, calls, p50, p99, missed, sent + missed))
    detail = text.strip()

    with tempfile.TemporaryDirectory() as d:
        out = f"{d}/irtt.json"
        _, cpu, switches = spent(irtt(interval_ms, count, out))
        trips = json.loads(Path(out).read_text())["round_trips"]
        rtts = [t["delay"]["rtt"] / 1e3 for t in trips if "rtt" in t.get("delay", {})]
        calls = per_probe(irtt(interval_ms, 2 * traced, out), irtt(interval_ms, traced, out), traced)
        rows.append(row("irtt", len(trips), cpu, switches, calls, *percentiles(rtts), max(count - len(trips), 0), count))

    text, cpu, switches = spent(fping(interval_ms, count))
    rtts = [float(v) * 1e3 for v in text.split(":", 1)[1].split() if v != "-"]
    calls = per_probe(fping(interval_ms, 2 * traced), fping(interval_ms, traced), traced)
    rows.append(row("fping", count, cpu, switches, calls, *percentiles(rtts), count - len(rtts), count))
    return rows, detail


def combine(rounds):
    """Medians over rounds, sums of counts; system calls were counted in the first round."""
    rows = []
    for tool in zip(*rounds):
        row = dict(tool[0])
        for key in ("rtt_p50_us", "rtt_p99_us", "cpu_ms_per_1000", "switches_per_probe"):
            row[key] = statistics.median(r[key] for r in tool)
        for key in ("missed", "slots"):
            row[key] = sum(r[key] for r in tool)
        rows.append(row)
    return rows


def server_costs(server):
    """Processor time of a running process, ms."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks * 1e3 / os.sysconf("SC_CLK_TCK")


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--interval-ms", type=float, default=10)
    args.add_argument("--count", type=int, default=200, help="probes of one tool in one round")
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--traced", type=int, default=50, help="probes to count system calls by; 0 for none")
    args.add_argument("--json", action="store_true")
    args = args.parse_args()
    # An interrupted run must leave no namespace behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    servers = []
    try:
        set_up()
        servers.append(subprocess.Popen(in_ns(FAR, OURS, "serve", f"{ADDR}:29111")))
        servers.append(subprocess.Popen(in_ns(FAR, "chrt", "-f", "50", "irtt", "server", "-i", "0"), stdout=subprocess.DEVNULL))
        time.sleep(0.5)
        rounds = []
        for n in range(args.rounds):
            rows, detail = measure(args.interval_ms, args.count, 0 if n else args.traced)
            rounds.append(rows)
        rows = combine(rounds)
        cpu = server_costs(servers[0]) * 1e3 / (args.rounds * args.count + 3 * args.traced)
    finally:
        for s in servers:
            s.terminate()
            s.wait()
        tear_down()
    by_tool = {r["tool"]: r for r in rows}
    verdicts = {
        "cpu as a share of irtt's (target 0.25)": round(by_tool["tailback"]["cpu_ms_per_1000"] / by_tool["irtt"]["cpu_ms_per_1000"], 3),
        "median above fping's, us (target at most 15)": round(by_tool["tailback"]["rtt_p50_us"] - by_tool["fping"]["rtt_p50_us"], 1),
        "server cpu ms per 1000 (target 60)": round(cpu, 1),
        "load of the machine (1 min)": os.getloadavg()[0],
    }
    if args.json:
        print(json.dumps({"interval_ms": args.interval_ms, "count": args.count, "tools": rows, "verdicts": verdicts}, indent=1))
        return
    heads = list(rows[0])
    print(f"every {args.interval_ms:g} ms, {args.rounds} rounds of {args.count} probes each")
    print("  ".join(f"{h:>18}" for h in heads))
    for r in rows:
        print("  ".join(f"{'-' if r[h] is None else r[h]:>18}" for h in heads))
    for what, value in verdicts.items():
        print(f"{what}: {value}")
    print("\nours, last round:\n" + detail)


if __name__ == "__main__":
    main()
