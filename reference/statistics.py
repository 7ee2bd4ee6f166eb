#!/usr/bin/env python3
"""Quantiles, moments and change points by numpy, scipy and ruptures: writes crates/analysis/tests/golden/statistics.txt.

The series are made by a generator that the Rust test has too, so that the file holds only results.
Usage: pip install numpy scipy ruptures; python3 reference/statistics.py > crates/analysis/tests/golden/statistics.txt
"""
import math

import numpy
import ruptures
import scipy
import scipy.stats

POINTS = [0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999]


def uniform(seed):
    """Knuth's MMIX generator, its upper 53 bits as a number below one."""
    x = seed
    while True:
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        yield (x >> 11) / 2**53


def normal(u):
    return sum(next(u) for _ in range(12)) - 6.0


def delays(n):
    """19 ms and an exponential tail, whole nanoseconds; one in fifty waits in a queue."""
    u = uniform(1)
    out = []
    for _ in range(n):
        ms = 19.0 - 2.0 * math.log(1.0 - next(u))
        if next(u) < 0.02:
            ms += 400.0 * next(u)
        out.append(int(ms * 1e6))
    return out


def levels(n, steps):
    """Noise of σ = 1 about a level that moves by each step at its index."""
    u = uniform(7)
    level, out = 20.0, []
    for i in range(n):
        level += dict(steps).get(i, 0.0)
        out.append(level + normal(u))
    return out


STEPS = {
    "none": (1500, []),
    "fault": (1500, [(400, 100.0), (600, 100.0), (700, -200.0), (1200, 111.9)]),
    "small": (1500, [(300, 3.0), (800, -2.0), (1100, 4.0)]),
    "short": (300, [(100, 20.0), (110, -20.0)]),
}

print(f"# reference/statistics.py: numpy {numpy.__version__}, scipy {scipy.__version__}, ruptures {ruptures.__version__}")
x = numpy.array(delays(20_000)) / 1e6
for p in POINTS:
    print(f"quantile {p} {numpy.quantile(x, p, method='linear'):.9f}")
print(f"mean 0 {x.mean():.9f}")
print(f"sd 0 {x.std(ddof=1):.9f}")
print(f"variance 0 {x.var(ddof=1):.9f}")
for limit in (20.0, 25.0, 30.0, 100.0, 300.0):
    k = int((x <= limit).sum())
    low, high = scipy.stats.binomtest(k, len(x)).proportion_ci(0.95, method="wilson")
    print(f"within {limit} {k / len(x):.9f} {low:.9f} {high:.9f}")
for name, (n, steps) in STEPS.items():
    y = numpy.array(levels(n, steps))
    penalty = 3.0 * math.log(n)
    found = ruptures.Pelt(model="l2", min_size=5, jump=1).fit(y).predict(pen=penalty)[:-1]
    print(f"changes {name} {' '.join(map(str, found))}".rstrip())
