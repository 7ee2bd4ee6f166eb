#!/usr/bin/env python3
"""Runs `tailback test` on emulated links whose truth is known, with real kernel TCP, and writes what it
said beside the truth to docs/book/truth.md. Exit code 1 if a figure misses its bound.

Usage: bench/truth.py [CASE...]   (all cases take about ten minutes)
"""
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAILBACK = ROOT / "target/release/tailback"
PAGE = ROOT / "docs/book/truth.md"

# Truth: rates in bit/s of whole IP packets; the upstream queue's size in ms and bytes when it is full of
# 1500-byte packets; what the discipline must be called and must not be called.
ADSL = {"down_bps": 8e6, "up_bps": 0.7e6, "base_ms": 19}
CASES = {
    "adsl": {
        "says": "ADSL 8/0.7 Mbit/s, 19 ms, drop-tail of 301 kbit up",
        "args": ["--link", "adsl"],
        "truth": ADSL | {"queue_ms": 430, "queue_bytes": 37_625, "factor": 22.6, "discipline": {"drop_tail"}, "grade": {"F"}},
    },
    "adsl-fq_codel": {
        "says": "the same with FQ-CoDel",
        "args": ["--link", "adsl", "--set", "up.queue=fq_codel", "--set", "down.queue=fq_codel"],
        "truth": ADSL | {"discipline": {"fair_queueing", "fair_queueing_aqm"}, "bloat": False},
    },
    "adsl-codel": {
        "says": "the same with CoDel",
        "args": ["--link", "adsl", "--set", "up.queue=codel", "--set", "down.queue=codel"],
        "truth": ADSL | {"discipline": {"aqm"}},
    },
    "shdsl": {
        "says": "SHDSL 2.035 Mbit/s both ways, 3.3 ms, 50 packets",
        "args": ["--link", "shdsl"],
        "truth": {"down_bps": 2.035e6, "up_bps": 2.035e6, "base_ms": 3.26, "queue_ms": 295, "queue_bytes": 75_000, "discipline": {"drop_tail"}},
    },
    "fiber": {
        "says": "fiber 60/60 Mbit/s, 20 ms, a BDP of buffer",
        "args": ["--link", "fiber"],
        "truth": {"down_bps": 60e6, "up_bps": 60e6, "base_ms": 20, "queue_ms": 20, "queue_bytes": 150_000, "factor": 1, "discipline": {"drop_tail"}},
    },
    "gprs": {
        "says": "GPRS 65 kbit/s, 300 ms, 3 s of buffer",
        "args": ["--link", "gprs"],
        "truth": {"down_bps": 65e3, "up_bps": 65e3, "base_ms": 300, "queue_ms": 3000, "queue_bytes": 24_375, "discipline": {"drop_tail"}},
    },
}


def value(figure):
    return figure.get("value") if isinstance(figure, dict) else None


def within(figure, truth, share):
    v = value(figure)
    return v is not None and abs(v - truth) <= share * truth


def shown(figure, scale=1.0, digits=3):
    v = value(figure)
    if v is None:
        return "cannot tell: " + figure.get("cannot_tell", "?")
    low, centre, high = (significant(figure[k] * scale, digits) for k in ("low", "value", "high"))
    return centre if low == high else f"{centre} ({low}–{high})"


def significant(x, digits):
    """Without an exponent: 2980, not 2.98e+03."""
    rounded = float(f"{x:.{digits}g}")
    return f"{rounded:.0f}" if rounded == int(rounded) else str(rounded)


def judge(answer, truth):
    """Rows of (what, said, truth, met)."""
    up, down = answer["up"], answer["down"]
    rows = [
        # The probe's own time on the wire is part of the round trip that is seen.
        ("base RTT, ms", shown(answer["base_rtt_ms"]), truth["base_ms"], within(answer["base_rtt_ms"], truth["base_ms"], 0.10)),
        ("rate down, Mbit/s", shown(down["link_rate_bps"], 1e-6), truth["down_bps"] / 1e6, within(down["link_rate_bps"], truth["down_bps"], 0.05)),
        ("rate up, Mbit/s", shown(up["link_rate_bps"], 1e-6), truth["up_bps"] / 1e6, within(up["link_rate_bps"], truth["up_bps"], 0.05)),
    ]
    if "queue_ms" in truth:
        rows += [
            ("queue up, ms", shown(up["queue_ms"]), truth["queue_ms"], within(up["queue_ms"], truth["queue_ms"], 0.10)),
            ("queue up, kB", shown(up["queue_bytes"], 1e-3), truth["queue_bytes"] / 1e3, within(up["queue_bytes"], truth["queue_bytes"], 0.10)),
        ]
    if "factor" in truth:
        rows.append(("factor too large", shown(up["factor_too_large"]), truth["factor"], within(up["factor_too_large"], truth["factor"], 0.15)))
    said = up["discipline"]["is"]
    rows.append(("discipline up", said, " or ".join(sorted(truth["discipline"])), said in truth["discipline"]))
    if "grade" in truth:
        rows.append(("grade", answer["grade"]["letter"], " or ".join(sorted(truth["grade"])), answer["grade"]["letter"] in truth["grade"]))
    if truth.get("bloat") is False:
        found = [f["says"] for f in answer["findings"] if f["severity"] == "bad"]
        rows.append(("bloat found", "; ".join(found) or "no", "no", not found))
    return rows


def run(name):
    case = CASES[name]
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(TAILBACK), "test", *case["args"], "--json", "--output", f"{scratch}/{name}.rec"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        if done.returncode != 0:
            return None, done.stderr
        return json.loads(done.stdout), done.stderr


def main():
    names = sys.argv[1:] or list(CASES)
    unknown = [n for n in names if n not in CASES]
    if unknown:
        sys.exit(f"no case {', '.join(unknown)}. Known: {', '.join(CASES)}")
    ok, sections = True, []
    for name in names:
        print(f"{name}: {CASES[name]['says']}", flush=True)
        answer, narration = run(name)
        if answer is None:
            print(narration)
            ok = False
            sections.append(f"## {CASES[name]['says']}\n\nThe run failed: {narration.strip()}\n")
            continue
        rows = judge(answer, CASES[name]["truth"])
        lines = ["| figure | said (95 % interval) | truth | within bounds |", "|---|---|---|---|"]
        for what, said, truth, met in rows:
            ok &= met
            print(f"  {'ok  ' if met else 'MISS'} {what}: {said} (truth {truth})", flush=True)
            lines.append(f"| {what} | {said} | {truth} | {'yes' if met else '**no**'} |")
        took = f"{answer['duration_s']:.0f} s, " + ", ".join(f"{p['name']} {'stable' if p['stable'] else 'not stable'}" for p in answer["phases"])
        evidence = "".join(f"- {line}\n" for line in answer["up"]["discipline"]["evidence"])
        sections.append(
            f"## {CASES[name]['says']}\n\n`tailback test {' '.join(CASES[name]['args'])}`: {took}.\n\n" + "\n".join(lines)
            + f"\n\nWhy that discipline:\n\n{evidence}"
        )
    if not sys.argv[1:]:
        kernel = re.match(r"[\d.]+", platform.release())[0]
        head = (
            "# Does it tell the truth?\n\n`make truth` runs the whole test over emulated links with real kernel TCP and compares what it said with\n"
            f"what the link is. Bounds: 5 % for rates, 10 % for the rest. This table was made on two cores, Linux {kernel}.\n"
        )
        PAGE.write_text(head + "\n" + "\n".join(sections))
        print(PAGE.relative_to(ROOT))
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
