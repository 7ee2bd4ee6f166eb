#!/usr/bin/env python3
"""Experiments on why figures of bench/sim_ns2.py differ: one for each letter of docs/book/sim-vs-ns2.md.

    bench/sim_ns2_why.py [--seeds 10] [S] [T] [P] [O]

Each changes, here and in ns-2 alike, what is said to be the cause, and prints what becomes of the difference. Needs ns-2.
"""
import argparse
import concurrent.futures
import json
import os
import statistics
import subprocess
import tempfile

from sim_ns2 import CONTROLLERS, QUEUES, ROOT, tagged


def theirs(args, seed, **options):
    """ns-2's figures of one run, and what happened to the packets of the first flow."""
    with tempfile.TemporaryDirectory() as directory:
        packets = os.path.join(directory, "packets")
        words = [str(word) for pair in {**options, "seed": seed, "packets": packets}.items() for word in pair]
        run = subprocess.run([args.ns, str(ROOT / "bench/sim_ns2/dumbbell.tcl")] + words, capture_output=True, text=True, check=True)
        line = next(line for line in run.stdout.splitlines() if line.startswith("figures"))
        words = line.split()[1:]
        with open(packets, encoding="ascii") as lines:
            return dict(zip(words[::2], map(float, words[1::2]))), lines.readlines()


def ours(args, queue, tcp, kbps, cc, **more):
    values = {
        "link.queue": QUEUES[queue], "tcp.controller": CONTROLLERS[cc], "tcp.rate_halving": 1.0 if cc == "cubic" else 0.5,
        "flow.1.count": tcp - 1, "flow.2.count": max(9 - tcp, 0), "flow.3.count": int(tcp < 10),
        "flow.2.rate": f"{kbps or 64} kbit/s", "flow.3.rate": f"{kbps or 64} kbit/s",
    } | {key.replace("__", "."): value for key, value in more.items()}
    command = [args.tailback, "sim", str(ROOT / "scenarios/ns2.toml"), "--json", "--seeds", str(args.seeds)]
    for key, value in values.items():
        command += ["--set", f"{key}={value}"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]["runs"]


def all_theirs(args, queue, tcp, kbps, cc, **more):
    kind, limit = queue.split()
    options = {"queue": kind, "limit": limit, "tcp": tcp, "kbps": kbps, "cc": cc, **more}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda seed: theirs(args, seed + 1, **options), range(args.seeds)))


def mean(values):
    values = list(values)
    half = 2.26 * statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0
    return f"{statistics.fmean(values):.4g} ±{half:.2g}"


def copies(lines):
    """Of the first flow's data in a trace of ns-2: sent, arrived, arrived though it had been there, most in a second."""
    sent, arrived, there, again, seconds = 0, 0, set(), 0, {}
    for line in lines:
        event, time, a, b, kind, _, _, flow, _, _, seq, _ = line.split()
        if flow != "0" or kind != "tcp":
            continue
        if event == "+" and a == "2":
            sent += 1
            seconds[int(float(time))] = seconds.get(int(float(time)), 0) + 1
        elif event == "r" and b == "3":
            arrived += 1
            again += seq in there
            there.add(seq)
    return sent, arrived, again, max(seconds.values())


def duplicates(args):
    print("S: what the first flow sends, and what of it had arrived already\n")
    print("| queue | | ns-2: sent | most in 1 s | arrived | there already % | here: sent | sent again |\n|---|---|---|---|---|---|---|---|")
    for queue, tcp, cc in [("DropTail 1000", 2, "cubic"), ("DropTail 1000", 2, "reno"), ("RED 50", 2, "cubic"), ("RED 50", 2, "reno")]:
        counts = [copies(lines) for _, lines in all_theirs(args, queue, tcp, 64, cc)]
        mine = [run["flows"][0] for run in ours(args, queue, tcp, 64, cc)]
        print(f"| {queue} | {cc} | {mean(c[0] for c in counts)} | {mean(c[3] for c in counts)} | {mean(c[1] for c in counts)} "
              f"| {mean(100 * c[2] / c[1] for c in counts)} | {mean(f['sent'] for f in mine)} | {mean(f['retransmits'] for f in mine)} |")


def timeouts(args):
    print("\nT: RED 50, Reno, the same least time-out in both; here / ns-2\n")
    print("| TCP | least time-out | goodput kbit/s | used % | dropped % |\n|---|---|---|---|---|")
    for tcp, kbps in [(8, 64), (10, 0)]:
        for least in [0.2, 0.6, 1, 2, 4]:
            mine = ours(args, "RED 50", tcp, kbps, "reno", tcp__min_rto=f"{least} s")
            other = [figures for figures, _ in all_theirs(args, "RED 50", tcp, kbps, "reno", minrto=least)]
            links = [run["links"][0] for run in mine]
            goodput = [sum(f["goodput_bps"] for f in run["flows"][:2]) / 1e3 for run in mine]
            print(f"| {tcp} | {least} s | {mean(goodput)} / {mean(f['goodput_kbps'] for f in other)} "
                  f"| {mean(100 * link['utilisation'] for link in links)} / {mean(f['util_pct'] for f in other)} "
                  f"| {mean(100 * link['drop_share'] for link in links)} / {mean(f['drop_pct'] for f in other)} |")


def patterns(args):
    print("\nP: 50 packets of drop-tail, Reno: the queue's mean in ms by the delay of the access links; here / ns-2\n")
    delays = [0.9, 1, 1.1, 1.3, 1.5, 1.7, 2, 2.2]
    print("| TCP | " + " | ".join(f"{d} ms" for d in delays) + " | range |\n|---|" + "---|" * (len(delays) + 1))
    for tcp, kbps in [(2, 64), (10, 0)]:
        other = [[figures["queue_ms"] for figures, _ in all_theirs(args, "DropTail 50", tcp, kbps, "reno", access=delay)] for delay in delays]
        for controller in [CONTROLLERS["reno"], CONTROLLERS["reno"] + ",whole=true"]:
            mine = [ours(args, "DropTail 50", tcp, kbps, "reno", access__delay=f"{delay} ms", tcp__controller=controller) for delay in delays]
            mine = [[run["links"][0]["queue_ms"]["mean"] for run in runs] for runs in mine]
            means = [[statistics.fmean(runs) for runs in side] for side in (mine, other)]
            spans = " / ".join(f"{min(side):.1f} to {max(side):.1f}" for side in means)
            print(f"| {tcp}, {controller} | " + " | ".join(f"{a:.1f} / {b:.1f}" for a, b in zip(*means)) + f" | {spans} |")


def overshoot(args):
    print("\nO: 1000 packets of drop-tail, Reno: what is dropped in all and by 20 s, and lost of the first flow; here / ns-2\n")
    print("| TCP | UDP kbit/s | drops | by 20 s | share % | first flow lost % | ns-2: there already % |\n|---|---|---|---|---|---|---|")
    for tcp, kbps in [(2, 64), (5, 64), (8, 64), (8, 448), (10, 0)]:
        mine = [run["links"][0]["drops"] for run in ours(args, "DropTail 1000", tcp, kbps, "reno")]
        lost = [100 * run["flows"][0]["loss"] for run in ours(args, "DropTail 1000", tcp, kbps, "reno")]
        early = [run["links"][0]["drops"] for run in ours(args, "DropTail 1000", tcp, kbps, "reno", duration="20 s")]
        runs = all_theirs(args, "DropTail 1000", tcp, kbps, "reno")
        other = [figures["drops"] for figures, _ in runs]
        other_lost = [tagged(lines)["0"][1] for _, lines in runs]
        again = [copies(lines) for _, lines in runs]
        other_early = [figures["drops"] for figures, _ in all_theirs(args, "DropTail 1000", tcp, kbps, "reno", seconds=20)]
        shares = [100 * sum(a) / sum(b) for a, b in ((early, mine), (other_early, other))]
        print(f"| {tcp} | {kbps or ''} | {mean(mine)} / {mean(other)} | {mean(early)} / {mean(other_early)} | {shares[0]:.0f} / {shares[1]:.0f} "
              f"| {mean(lost)} / {mean(other_lost)} | {mean(100 * c[2] / c[1] for c in again)} |")


EXPERIMENTS = {"S": duplicates, "T": timeouts, "P": patterns, "O": overshoot}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("letters", nargs="*", choices=[*EXPERIMENTS, []], help="which of them; all")
    parser.add_argument("--tailback", default=str(ROOT / "target/release/tailback"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--ns", default="ns", help="the program of ns-2")
    args = parser.parse_args()
    for letter in args.letters or EXPERIMENTS:
        EXPERIMENTS[letter](args)


if __name__ == "__main__":
    main()
