#!/usr/bin/env python3
"""Three weeks of a home line that never was, as the delay and traffic monitors' files: what docs/book/plots.md draws.

A queue of up to 430 ms fills while something is uploaded, more often in the evening and at weekends; one outage of
half an hour, one of 160 s, and a gap in which nothing was measured. Usage: weeks.py DIRECTORY [PROBES A SECOND [yesterday]];
with `yesterday` they end then, without it in 2014.
"""
import datetime
import functools
import math
import pathlib
import random
import sys

BEGIN = datetime.datetime(2014, 5, 4, 15, 55)
if "yesterday" in sys.argv[3:]:
    BEGIN = datetime.datetime.combine(datetime.date.today(), BEGIN.time()) - datetime.timedelta(days=22)
DAY = 86_400


@functools.lru_cache(100)
def second(s):
    return (BEGIN + datetime.timedelta(seconds=s)).strftime("%Y-%m-%d %H:%M:%S")


def stamp(ms):
    """With the monitor's own fault: milliseconds without leading zeros."""
    return f"{second(ms // 1000)}:{ms % 1000}"


def main():
    random.seed(3)
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    delay, dropped, traffic = (open(out / f"{n}.csv", "w") for n in ("delay", "dropped", "traffic"))
    often = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    for n in range(21 * DAY * often):
        i = n // often
        hour = (i / 3600 + 15.92) % 24
        weekend = 1.4 if (i // DAY + 6) % 7 >= 5 else 1
        busy = max(0, math.sin((hour - 9) / 12 * math.pi - 0.6)) * weekend
        upload = i % 20_000 < 1400 * busy
        tooth = i % 40 / 40
        wait = 250 + 180 * tooth if upload else 0
        if random.random() < 0.02 * busy:
            wait += random.expovariate(1 / 120)
        rtt = 18.6 + random.expovariate(1 / 0.9) + wait
        out_of_order = 11 * DAY + 50_000 <= i < 11 * DAY + 51_800 or 4 * DAY <= i < 4 * DAY + 160
        loss = 1 if out_of_order else 0.2 if upload and tooth > 0.92 else 0.0001
        ms = n * 1000 // often + random.randrange(3)
        if 3 * DAY < i < 3 * DAY + 14_000:
            continue
        if random.random() < loss:
            dropped.write(f"{n},{stamp(ms)},-1,-1,-1,\n")
        else:
            delay.write(f"{n},{stamp(ms)},{stamp(ms + int(rtt))},{rtt / 1000:.6f},{int(rtt)},20\n")
        if n % (10 * often) == 0:
            up = 650 + 9 * random.random() if upload else random.random() * 40
            down = (random.random() < 0.3 * busy) * random.random() * 6500 + random.random() * 50
            traffic.write(f"10.000000,{up:.4f},{down:.4f}, {stamp(ms + 10_000)}\n")


main()
