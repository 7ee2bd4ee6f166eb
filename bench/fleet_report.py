#!/usr/bin/env python3
"""Time of `tailback fleet report` over 100 points and 30 days: writes random digests into the ledger of a new hub.

Usage: bench/fleet_report.py DIRECTORY [SEED]
Prints the first lines of the report, and the time of five runs.
"""
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

TAILBACK = Path(__file__).resolve().parent.parent / "target/release/tailback"
POINTS, DAYS = 100, 30
TARGETS = {"udp": 0, "icmp:192.0.2.1": 5}
MEDIANS = {"adsl": 25, "lte": 45, "fiber": 8}


def steps(base_ms, load):
    """Round trips of a day at ten a second, as value and count: the steps of a sketch of 2^7 to an octave."""
    found = {}
    for _ in range(3000):
        value = int(base_ms * 1e6 * (1 + load * random.expovariate(2)))
        octave = max(value.bit_length() - 8, 0)
        middle = ((value >> octave) << octave) + ((1 << octave) >> 1)
        found[middle] = found.get(middle, 0) + 288
    return sorted(found.items())


def fill(ledger):
    for number in range(POINTS):
        name, technology = f"village-{number:02}", random.choice(list(MEDIANS))
        key = os.urandom(32).hex()
        ledger.execute("insert into point (name, public_key, enrolled_s) values (?, ?, 0)", (name, key))
        ledger.execute("insert into label values (?, 'technology', ?)", (name, technology))
        base = MEDIANS[technology] * random.lognormvariate(0, 0.3)
        for target, more in TARGETS.items():
            for day in range(1, DAYS + 1):
                found = steps(base + more, random.lognormvariate(0, 0.25))
                answered = sum(count for _, count in found)
                missed = int(answered * random.expovariate(300))
                row = (name, target, f"2026-11-{day:02}", answered + missed, missed, json.dumps(found))
                ledger.execute("insert into delay_day values (?, ?, ?, ?, ?, ?)", row)


def main():
    hub = Path(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    random.seed(seed)
    print(f"seed {seed}")
    subprocess.run([TAILBACK, "fleet", "status", "--data", hub], check=True, stdout=subprocess.DEVNULL)
    with sqlite3.connect(hub / "ledger.sqlite") as ledger:
        fill(ledger)
    for run in range(5):
        began = time.monotonic()
        report = [TAILBACK, "fleet", "report", "--data", hub, "--by", "technology", "--output", hub / "fleet.html"]
        printed = subprocess.run(report, check=True, capture_output=True, text=True).stdout
        if run == 0:
            print("\n".join(printed.splitlines()[:10]))
        print(f"{time.monotonic() - began:.2f} s")


if __name__ == "__main__":
    main()
