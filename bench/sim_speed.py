#!/usr/bin/env python3
"""How fast the simulator is, beside the others, on one core of this machine, in CPU seconds.

    bench/sim_speed.py [--rounds 5] [--ns3 DIRECTORY] [--sweep-only | --no-sweep] [--misses] [--plot FILE.svg]

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
   for a packet and none repairs losses. Each figure is the least of the rounds, which take turns: a neighbour on the
   machine can only add to it. --misses adds what a cache of 2 MB, a core's own here, does not hold, by valgrind's
   cachegrind; --plot draws the table.

CPU time is that of the process, so a busy machine costs less than with wall time, but run it on a quiet one.
"""
import argparse
import json
import math
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
                # A script that removes no headers.
                whole = pathlib.Path(directory) / f"whole-{number}.tcl"
                lines = (ROOT / "bench" / tcl).read_text(encoding="utf-8").splitlines()
                whole.write_text("\n".join(l for l in lines if "packet-header" not in l) + "\n", encoding="utf-8")
                commands["ns-2, all"] = ["ns", str(whole)]
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


CACHES = ["--D1=49152,12,64", "--LL=2097152,16,64"]
# Flows, Mbit/s, and millions of packets in the span that is measured.
GROWING = [(10, 10, 0.5), (30, 30, 0.5), (100, 100, 0.5), (300, 300, 1), (1000, 1000, 1), (3000, 3000, 2), (10_000, 10_000, 3)]
FASTER = [(10, 1, 0.3), (10, 10, 0.5), (10, 100, 0.5), (10, 1000, 1), (10, 10_000, 5)]


def command_of(args, flows, mbps, seconds):
    packets_per_s = mbps * 1e6 / 8320
    sets = {
        "duration": f"{seconds:.3f} s", "topology": f"dumbbell:pairs={flows}", "link.rate": f"{mbps} Mbit/s",
        "link.queue": f"fifo:packets={max(100, int(packets_per_s / 5))}", "access.rate": f"{max(1000, mbps)} Mbit/s",
        "access.queue": "fifo:packets=1000000", "tcp.receive_window": f"{max(2000, round(mbps * 21250 / flows))} B",
        "flow.0.count": flows, "flow.0.stagger": "0 s", "flow.0.spread": "1 s",
    }
    command = [args.tailback, "sim", str(ROOT / "scenarios/dumbbell.toml"), "--threads", "1", "--json"]
    for key, value in sets.items():
        command += ["--set", f"{key}={value}"]
    return command


def spans_of(mbps, millions):
    """Of two runs, seconds: the second has so many packets more."""
    packets_per_s = mbps * 1e6 / 8320
    begin = max(2.0, 0.2 * millions * 1e6 / packets_per_s)
    return begin, begin + millions * 1e6 / packets_per_s


def packets_of(out, seconds, what):
    link = json.loads(out)[0]["runs"][0]["links"][0]
    if link["drop_share"]:
        raise SystemExit(f"{what}: {link['drop_share']:.2%} were dropped, so packets cost more than elsewhere")
    return link["delivered_bps"] * seconds / 8320


def costs(args, rows):
    """For each row nanoseconds for a packet and its ACK over six links, and MB: the second of two spans of a run."""
    seen = {row: [[], []] for row in rows}
    for _ in range(args.rounds):
        for row in rows:
            flows, mbps, millions = row
            for span, seconds in enumerate(spans_of(mbps, millions)):
                cpu, memory, out = measure(command_of(args, flows, mbps, seconds))
                seen[row][span].append((cpu, memory, packets_of(out, seconds, f"{flows} flows, {mbps} Mbit/s")))
    found = {}
    for row, spans in seen.items():
        (cpu, _, packets), (cpu2, memory, packets2) = (min(span) for span in spans)
        found[row] = ((cpu2 - cpu) / (packets2 - packets) * 1e9, memory)
    return found


def misses(args, flows, mbps, millions):
    """Instructions and misses of a cache of 2 MB for a packet: the second of two spans."""
    seen = []
    for seconds in spans_of(mbps, min(millions, 0.5)):
        with tempfile.NamedTemporaryFile() as out:
            command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", *CACHES, f"--cachegrind-out-file={out.name}"]
            run = subprocess.run(command + command_of(args, flows, mbps, seconds), capture_output=True, text=True, check=True)
            lines = pathlib.Path(out.name).read_text(encoding="utf-8").splitlines()
        events = next(line for line in lines if line.startswith("events:")).split()[1:]
        totals = dict(zip(events, map(int, next(line for line in lines if line.startswith("summary:")).split()[1:])))
        seen.append((totals["Ir"], totals["DLmr"] + totals["DLmw"], packets_of(run.stdout, seconds, f"{flows} flows")))
    packets = seen[1][2] - seen[0][2]
    # Of a few thousand misses in all, either span may have more.
    return (seen[1][0] - seen[0][0]) / packets, max(0.0, (seen[1][1] - seen[0][1]) / packets)


def sweep(args):
    rows = list(dict.fromkeys(GROWING + FASTER))
    found = costs(args, rows)
    base = found[GROWING[0]][0]
    counted = {row: misses(args, *row) for row in GROWING} if args.misses else {}
    print(f"{'flows':>6} {'Mbit/s':>7} {'ns a packet':>12} {'ratio':>6} {'MB':>7}" + f" {'instructions':>13} {'misses':>7}" * args.misses)
    for row in GROWING + FASTER[:1] + FASTER[2:]:
        (ns, memory), more = found[row], counted.get(row)
        print(f"{row[0]:6} {row[1]:7} {ns:12.0f} {ns / base:6.2f} {memory:7.1f}" + (f" {more[0]:13.0f} {more[1]:7.2f}" if more else ""))
    if args.plot:
        draw(args.plot, found, counted)


def draw(file, found, counted):
    """The cost of a packet against the number of flows and against the rate, with the band of 30 %."""
    base, top = found[GROWING[0]][0], max(ns for ns, _ in found.values()) * 1.15
    left, width, height, gap = 60, 330, 230, 70

    def panel(x0, rows, axis, label, decades):
        x = lambda row: x0 + width * (math.log10(row[axis]) - decades[0]) / (decades[-1] - decades[0])
        y = lambda ns: 40 + height * (1 - ns / top)
        parts = [f'<rect x="{x0}" y="{y(1.3 * base):.1f}" width="{width}" height="{y(base / 1.3) - y(1.3 * base):.1f}" fill="#e3eef8"/>']
        for tick in decades:
            at = x0 + width * (tick - decades[0]) / (decades[-1] - decades[0])
            name = f"{10 ** tick:,}".replace(",", " ")
            parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="{40 + height}" stroke="#ddd"/>'
                         f'<text x="{at:.1f}" y="{58 + height}" text-anchor="middle">{name}</text>')
        for ns in range(0, int(top), 100):
            parts.append(f'<line x1="{x0}" x2="{x0 + width}" y1="{y(ns):.1f}" y2="{y(ns):.1f}" stroke="#ddd"/>'
                         f'<text x="{x0 - 6}" y="{y(ns) + 4:.1f}" text-anchor="end">{ns}</text>')
        points = " ".join(f"{x(row):.1f},{y(found[row][0]):.1f}" for row in rows)
        parts.append(f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="2"/>')
        for row in rows:
            parts.append(f'<circle cx="{x(row):.1f}" cy="{y(found[row][0]):.1f}" r="3.5" fill="#1f5fa8"/>')
            if axis == 0 and row in counted:
                parts.append(f'<text x="{x(row):.1f}" y="{y(found[row][0]) - 9:.1f}" text-anchor="middle" fill="#a33">'
                             f"{counted[row][1]:.1f}</text>")
        parts.append(f'<text x="{x0 + width / 2}" y="{80 + height}" text-anchor="middle">{label}</text>')
        return "".join(parts)

    red = "; in red: misses of a cache of 2 MB for each" if counted else ""
    body = panel(left, GROWING, 0, "flows of 1 Mbit/s each", range(1, 5))
    body += panel(left + width + gap, FASTER, 1, "Mbit/s, ten flows", range(0, 5))
    total = left + 2 * width + gap + 20
    pathlib.Path(file).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height + 95}" width="{total}" height="{height + 95}" '
        f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>'
        f'<text x="{left}" y="22">CPU time of a packet and its ACK over six links, ns; shaded: within 30 % of ten flows{red}</text>'
        f"{body}</svg>\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tailback", default=str(ROOT / "target/release/tailback"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ns3", metavar="DIRECTORY", help="with include/ns3 and lib, such as ns-3's build directory")
    parser.add_argument("--misses", action="store_true", help="count instructions and cache misses with valgrind: minutes")
    parser.add_argument("--plot", metavar="FILE", help="draw the sweep as SVG")
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
