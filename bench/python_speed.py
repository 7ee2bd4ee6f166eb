#!/usr/bin/env python3
"""Speed and size of the Python package, as a table: docs/book/python.md. Each figure comes from a process of its own.

Usage: python_speed.py DIRECTORY BINARY [SIMULATIONS], in an environment with tailback, pyarrow, polars and pandas. DIRECTORY keeps
the recording of 14.4 million probes. BINARY is the command that xargs starts. SIMULATIONS: runs of the sweep [default: 400].
"""

import importlib.util
import os
import pathlib
import resource
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
DUMBBELL = HERE.parent / "scenarios/dumbbell.toml"
COLUMNS = "'sent_ns', 'rtt_ns', 'target'"
# Prints the processor time of user and system, the time that passed, and the most memory, after a preparation.
PROGRAM = """
import resource, sys, time
{before}
a, t = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
{measured}
b, t = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - t
print(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime, t, b.ru_maxrss / 1000)
"""


def measured(before, what, times=3):
    """Processor time, time and memory of a piece of Python: the best of some processes."""
    program = PROGRAM.format(before=before, measured=what)
    runs = []
    for _ in range(times):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        runs.append([float(word) for word in done.stdout.split()])
    return min(runs)


def recording(directory):
    """Recording of three weeks at eight probes a second."""
    path = directory / "weeks.rec"
    if not path.exists():
        subprocess.run([sys.executable, HERE / "weeks.py", directory, "8"], check=True)
        csv = [directory / f"{name}.csv" for name in ("delay", "dropped", "traffic")]
        line = [sys.executable, "-m", "tailback", "import", *csv, "--output", path, "--zone", "Europe/Oslo"]
        subprocess.run(line, check=True)
        for file in csv:
            file.unlink()
    return path


def sweep(count, binary):
    """Processor time of a sweep by `tailback.sweep`, and by one command a simulation under `xargs -P2`."""
    def cpu():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    ours = f"import tailback as tb; tb.sweep({{'seed': range(1, {count} + 1)}}, {str(DUMBBELL)!r}, threads=2)"
    start = cpu()
    subprocess.run([sys.executable, "-c", ours], check=True)
    middle = cpu()
    command = [binary, "sim", DUMBBELL, "--threads=1", "--json"]
    seeds = "\n".join(map(str, range(1, count + 1)))
    line = ["xargs", "-P2", "-I{}", *command, "--set=seed={}"]
    subprocess.run(line, input=seeds, text=True, stdout=subprocess.DEVNULL, check=True)
    return middle - start, cpu() - middle


def size():
    """Bytes of the installed package."""
    package = pathlib.Path(importlib.util.find_spec("tailback").origin).parent
    return sum(file.stat().st_size for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def main():
    """Prints the table."""
    directory = pathlib.Path(sys.argv[1])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    directory.mkdir(parents=True, exist_ok=True)
    path = str(recording(directory))
    load = os.getloadavg()[0]
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores, load {load:.1f} before, {time.strftime('%Y-%m-%d')}\n")
    print("| | asked | seen |\n|---|---|---|")
    cpu, _, _ = measured("", "import tailback")
    print(f"| import | 0.03 CPU-s | {cpu:.3f} |")
    print(f"| installed size | 25 MB | {size() / 1e6:.1f} MB |")
    opened = f"import tailback as tb; rec = tb.open({path!r})"
    _, took, _ = measured("import tailback as tb", f"tb.open({path!r})")
    print(f"| open 14.4 M probes | 20 ms | {took * 1000:.1f} ms |")
    cpu, took, memory = measured(opened, "rec.analyse(statistics=True)")
    print(f"| their first analysis | 1 CPU-s, 500 MB | {cpu:.2f} CPU-s ({took:.1f} s), {memory:.0f} MB |")
    fill = "import numpy; kept = []"
    cpu, _, _ = measured(fill, "for _ in range(880): kept.append(numpy.full(65536, 1.0))")
    print(f"| 460 MB of new memory, filled | – | {cpu:.2f} CPU-s |")
    for name, asked, to in [("pyarrow", 0.25, "arrow"), ("polars", 0.3, "polars"), ("pandas", 0.7, "pandas")]:
        before = f"{opened}; import pyarrow, {name}"
        whole, _, _ = measured(before, f"x = rec.delay.to_{to}()")
        three, _, _ = measured(before, f"x = rec.delay.select({COLUMNS}).to_{to}()")
        print(f"| all 13 columns to {name}; three columns | {asked} CPU-s | {whole:.2f}; {three:.2f} CPU-s |")
    ours, theirs = sweep(count, sys.argv[2])
    print(f"| {count} simulations of 60 s | 1.05 × `xargs -P2` | {ours / theirs:.2f} × ({ours:.0f} CPU-s, {theirs:.0f} CPU-s) |")


if __name__ == "__main__":
    main()
