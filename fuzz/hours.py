#!/usr/bin/env python3
"""Fuzzes every target of fuzz/targets.rs by coverage, with cargo-fuzz, in turns until the hours are over: one target on each processor.

Each turn's processor time, messages and seed go to fuzz/log.tsv, which is committed: another run, on another machine, goes on
where this one stopped. The corpus that grows stays in target/fuzz/corpus. `--report` prints what all runs together have done.
A crash ends the run with code 1 and names the file that caused it.

Usage: fuzz/hours.py HOURS [TARGET...]    processor-hours of all runs together
       fuzz/hours.py --report
Needs `cargo install cargo-fuzz`, a nightly toolchain and a C++ compiler.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "fuzz"
LOG = ROOT / "fuzz/log.tsv"
TURN = 120  # seconds of one target before the next one
PROGRAM = WORK / "x86_64-unknown-linux-gnu/release/any"


def names():
    found = []
    for file in ("targets.rs", "secrets.rs"):
        text = (ROOT / "fuzz" / file).read_text()
        found += re.findall(r'^\s*target\(\s*"(\w+)"', text, re.MULTILINE)
        found += re.findall(r'^\s*name: "(\w+)"', text, re.MULTILINE)
    return found


def rows():
    if not LOG.exists():
        return []
    return [line.split("\t") for line in LOG.read_text().splitlines()]


def hours():
    return sum(float(row[3]) for row in rows()) / 3600


def report():
    total = defaultdict(lambda: [0.0, 0, 0])
    for target, _, _, seconds, messages, corpus in rows():
        sums = total[target]
        sums[0] += float(seconds)
        sums[1] += int(messages)
        sums[2] = int(corpus)
    print("| target | processor-hours | messages | corpus |\n|---|---|---|---|")
    for target in names():
        seconds, messages, corpus = total[target]
        print(f"| {target} | {seconds / 3600:.2f} | {messages:,} | {corpus} |")
    print(f"| all | {hours():.2f} | {sum(t[1] for t in total.values()):,} | {sum(t[2] for t in total.values()):,} |")


def turn(target):
    """One turn of a target; None, or the output of a crash."""
    corpus, kept = WORK / "corpus" / target, WORK / "crashes"
    corpus.mkdir(parents=True, exist_ok=True)
    kept.mkdir(exist_ok=True)
    seed = random.randrange(1, 2**31)
    with tempfile.TemporaryFile() as said:
        run = subprocess.Popen(
            [PROGRAM, corpus, ROOT / "fuzz/corpus" / target, f"-seed={seed}", f"-max_total_time={TURN}", "-timeout=300",
             "-max_len=24000", "-rss_limit_mb=2048", f"-artifact_prefix={kept}/{target}-", "-print_final_stats=1"],
            env=os.environ | {"FUZZ_TARGET": target}, stdout=subprocess.DEVNULL, stderr=said,
        )
        _, status, used = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        told = said.read().decode(errors="replace")
    seconds = used.ru_utime + used.ru_stime
    messages = re.search(r"stat::number_of_executed_units:\s*(\d+)", told)
    row = [target, str(seed), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), f"{seconds:.1f}",
           messages[1] if messages else "0", str(len(list(corpus.iterdir())))]
    with LOG.open("a") as log:
        log.write("\t".join(row) + "\n")
    return told if run.returncode else None


def main():
    if sys.argv[1:] == ["--report"]:
        return report()
    if len(sys.argv) < 2 or not re.fullmatch(r"\d+(\.\d+)?", sys.argv[1]):
        sys.exit(__doc__)
    asked, wanted = float(sys.argv[1]), sys.argv[2:] or names()
    if unknown := set(wanted) - set(names()):
        sys.exit(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(names())}")
    WORK.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "+nightly", "fuzz", "build", "any", "--fuzz-dir", ROOT / "fuzz", "--target-dir", WORK], cwd=ROOT, check=True)
    with ThreadPoolExecutor() as pool:
        turns = {}
        while turns or hours() < asked:
            done = defaultdict(float)
            for row in rows():
                done[row[0]] += float(row[3])
            idle = sorted(set(wanted) - set(turns.values()), key=lambda name: done[name])
            for target in idle[:max((os.cpu_count() or 1) - len(turns), 0)] if hours() < asked else []:
                turns[pool.submit(turn, target)] = target
            for over in wait(turns, return_when=FIRST_COMPLETED).done:
                target = turns.pop(over)
                if said := over.result():
                    print(said[-4000:], file=sys.stderr)
                    sys.exit(f"{target} crashed; the message is in {WORK / 'crashes'}, after {hours():.2f} processor-hours of all targets")
                print(f"{target}: {hours():.2f} of {asked:g} processor-hours", flush=True)
    report()


if __name__ == "__main__":
    main()
