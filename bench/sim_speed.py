#!/usr/bin/env python3
"""How fast the simulator is, beside the others, on one core of this machine, in CPU seconds.

    bench/sim_speed.py [--rounds 5] [--ns3 DIRECTORY] [--sweep-only | --no-sweep]

1. Two dumbbells, each in every simulator that is installed, in turn, a round after the other:
     first   ten long CUBIC flows of 1000-byte segments, access 1 Gbit/s 5 ms, bottleneck 100 Mbit/s 50 ms, drop-tail
             1000 packets, 60 s: scenarios/dumbbell.toml, bench/sim_speed/dumbbell.tcl, bench/ns3/dumbbell.cc
     second  eight CUBIC flows and two of 448 kbit/s, access 10 Mbit/s 1 ms, bottleneck 1.5 Mbit/s 50 ms, RED, 100 s:
             scenarios/ns2.toml, bench/sim_ns2/dumbbell.tcl, bench/ns3/dumbbell.cc
   ns-2 is Debian's package `ns2`. ns-3 is looked for where Debian's `libns3-dev` puts it, or in a directory with
   include/ns3 and lib, such as bench/ns3/build.sh makes: Debian's own libraries have the log compiled in, which makes
   them slower. Its program is built with g++ -O3 -march=native. It runs once, because a round of it takes half a minute.
2. The cost of a packet in ours, from 10 to 10 000 flows of 1 Mbit/s each and from 1 Mbit/s to 10 Gbit/s with ten flows:
   CPU time without what it takes to begin, over the packets that passed the bottleneck, each with its ACK and six links
   on its way. The receiver's window lets the flows fill the line and 50 ms of queue, so that all runs do the same work
   for a packet and none repairs losses.

CPU time is that of the process, so a busy machine costs less than with wall time, but run it on a quiet one.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NS3_MODULES = ["applications", "bridge", "core", "internet", "network", "point-to-point", "stats", "traffic-control"]


def measure(command):
    """CPU seconds, peak memory in MB and what was printed."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
        out.seek(0)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, out.read().decode()


def ns3_program(given, directory):
    """Builds ours against the ns-3 that is there; the program and what it was linked with, or nothing."""
    includes = [pathlib.Path(given) / "include"] if given else sorted(pathlib.Path("/usr/include").glob("ns3*"))
    for include in includes:
        if not (include / "ns3/core-module.h").exists():
            continue
        libraries = pathlib.Path(given) / "lib" if given else pathlib.Path("/usr/lib/x86_64-linux-gnu")
        linked = []
        for module in NS3_MODULES:
            linked += sorted(libraries.glob(f"libns3*-{module}.so")) or sorted(libraries.glob(f"libns3*-{module}-*.so"))
        program = directory / "ns3-dumbbell"
        source = ROOT / "bench/ns3/dumbbell.cc"
        subprocess.run(["g++", "-O3", "-march=native", "-std=c++17", "-DNDEBUG", f"-I{include}", str(source), "-o", str(program),
                        *map(str, linked), f"-Wl,-rpath,{libraries}"], check=True)
        return program, linked[0].name
    if given:
        raise SystemExit(f"{given}: no include/ns3/core-module.h there")
    return None, None


def dumbbells(args):
    with tempfile.TemporaryDirectory() as directory:
        ns3, library = ns3_program(args.ns3, pathlib.Path(directory))
        print(f"ns-2: {'ns' if shutil.which('ns') else 'not installed'}; ns-3: {library or 'not installed'}\n")
        for number, scenario, tcl in [(1, "dumbbell.toml", "sim_speed/dumbbell.tcl"), (2, "ns2.toml", "sim_ns2/dumbbell.tcl")]:
            commands = {"tailback": [args.tailback, "sim", str(ROOT / "scenarios" / scenario), "--threads", "1"]}
            if shutil.which("ns"):
                commands["ns-2"] = ["ns", str(ROOT / "bench" / tcl)]
            if ns3:
                commands["ns-3"] = [str(ns3), f"--scenario={number}"]
            times, memory = {name: [] for name in commands}, {}
            for round in range(args.rounds):
                for name, command in commands.items():
                    if name != "ns-3" or round == 0:
                        seconds, memory[name], _ = measure(command)
                        times[name].append(seconds)
            ours = statistics.median(times["tailback"])
            print(f"scenarios/{scenario}")
            print(f"{'':10} {'CPU s':>8} {'least':>8} {'MB':>6} {'ratio':>7}")
            for name, values in times.items():
                median = statistics.median(values)
                print(f"{name:10} {median:8.3f} {min(values):8.3f} {memory[name]:6.1f} {median / ours:7.1f}")
            print()
            sys.stdout.flush()


def cost(args, flows, mbps, millions):
    """Nanoseconds for a packet and its ACK over six links, and memory: the second of two spans of a run."""
    packets_per_s = mbps * 1e6 / 8320
    begin = max(2.0, 0.2 * millions * 1e6 / packets_per_s)
    spans = [begin, begin + millions * 1e6 / packets_per_s]
    seen = []
    for seconds in spans:
        sets = {
            "duration": f"{seconds:.3f} s", "topology": f"dumbbell:pairs={flows}", "link.rate": f"{mbps} Mbit/s",
            "link.queue": f"fifo:packets={max(100, int(packets_per_s / 5))}", "access.rate": f"{max(1000, mbps)} Mbit/s",
            "access.queue": "fifo:packets=1000000", "tcp.receive_window": f"{max(2000, round(mbps * 21250 / flows))} B",
            "flow.0.count": flows, "flow.0.stagger": "0 s", "flow.0.spread": "1 s",
        }
        command = [args.tailback, "sim", str(ROOT / "scenarios/dumbbell.toml"), "--threads", "1", "--json"]
        for key, value in sets.items():
            command += ["--set", f"{key}={value}"]
        cpu, memory, out = min((measure(command) for _ in range(args.rounds)), key=lambda m: m[0])
        link = json.loads(out)[0]["runs"][0]["links"][0]
        seen.append((cpu, link["delivered_bps"] * seconds / 8320, memory, link["drop_share"]))
    (cpu, packets, _, _), (cpu2, packets2, memory, drops) = seen
    if drops:
        raise SystemExit(f"{flows} flows, {mbps} Mbit/s: {drops:.2%} were dropped, so packets cost more than elsewhere")
    return (cpu2 - cpu) / (packets2 - packets) * 1e9, memory


def sweep(args):
    base = None
    print(f"{'flows':>6} {'Mbit/s':>7} {'ns a packet':>12} {'ratio':>6} {'MB':>7}")
    for flows, mbps, millions in [(10, 10, 0.5), (100, 100, 0.5), (1000, 1000, 1), (10_000, 10_000, 3),
                                  (10, 1, 0.3), (10, 10, 0.5), (10, 100, 0.5), (10, 1000, 1), (10, 10_000, 5)]:
        ns, memory = cost(args, flows, mbps, millions)
        base = base or ns
        print(f"{flows:6} {mbps:7} {ns:12.0f} {ns / base:6.2f} {memory:7.1f}")
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tailback", default=str(ROOT / "target/release/tailback"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ns3", metavar="DIRECTORY", help="with include/ns3 and lib, such as ns-3's build directory")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--sweep-only", action="store_true")
    part.add_argument("--no-sweep", action="store_true")
    args = parser.parse_args()
    if not args.sweep_only:
        dumbbells(args)
    if not args.no_sweep:
        sweep(args)


if __name__ == "__main__":
    main()
