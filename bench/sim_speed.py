#!/usr/bin/env python3
"""One scenario in every simulator that is installed, in turn on this machine, in CPU seconds.

    bench/sim_speed.py [--rounds 5] [--ns3 PROGRAM]

Ten long CUBIC flows of 1000-byte segments, access 1 Gbit/s 5 ms, bottleneck 100 Mbit/s 50 ms, drop-tail 1000
packets, 60 s. ns-2 is Debian's package `ns2`; an ns-3 program of the same scenario is given with --ns3.
CPU time is that of the process, so a busy machine costs less than with wall time, but run it on a quiet one.
"""
import argparse
import os
import pathlib
import shutil
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def cpu_seconds(command):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tailback", default=str(ROOT / "target/release/tailback"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ns3", help="a built ns-3 program that runs the scenario")
    args = parser.parse_args()
    commands = {"tailback": [args.tailback, "sim", str(ROOT / "scenarios/dumbbell.toml"), "--threads", "1"]}
    if shutil.which("ns"):
        commands["ns-2"] = ["ns", str(ROOT / "bench/sim_speed/dumbbell.tcl")]
    if args.ns3:
        commands["ns-3"] = [args.ns3]
    times = {name: [] for name in commands}
    memory = {}
    for _ in range(args.rounds):
        for name, command in commands.items():
            seconds, memory[name] = cpu_seconds(command)
            times[name].append(seconds)
    ours = statistics.median(times["tailback"])
    print(f"{'':10} {'CPU s':>7} {'least':>7} {'MB':>6} {'ratio':>7}")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"{name:10} {median:7.3f} {min(values):7.3f} {memory[name]:6.1f} {median / ours:7.2f}")


if __name__ == "__main__":
    main()
