#!/usr/bin/env python3
"""Data that a rival's plotter and ours both draw: pictures of docs/book/plots.md.

side_by_side.py smokeping DIR        a database of SmokePing: twelve hours, a round of 20 pings every five minutes (needs rrdtool)
side_by_side.py flent REC FILE       the upload of a test's recording as flent's data file (needs flent and pyarrow from PyPI)
"""
import bisect
import datetime
import pathlib
import random
import subprocess
import sys

BEGIN, STEP, ROUNDS, PINGS = 1399766400, 300, 144, 20


def smokeping(out):
    """Rounds of 21 to 24 ms, six times half an hour of a full queue of 430 ms, and half an hour without an answer."""
    random.seed(3)
    gauge = "GAUGE:600:0:180"
    fields = ["DS:uptime:GAUGE:600:0:U", f"DS:loss:GAUGE:600:0:{PINGS}", f"DS:median:{gauge}"]
    fields += [f"DS:ping{i}:{gauge}" for i in range(1, PINGS + 1)]
    archives = ["RRA:AVERAGE:0.5:1:4032", "RRA:AVERAGE:0.5:12:4800", "RRA:MIN:0.5:12:4800", "RRA:MAX:0.5:12:4800"]
    file = str(pathlib.Path(out) / "Home.rrd")
    subprocess.check_call(["rrdtool", "create", file, "--start", str(BEGIN - STEP), "--step", str(STEP), *fields, *archives])
    for k in range(ROUNDS):
        full = (k // 7) % 3 == 1 and k > 20
        pings = []
        for i in range(PINGS):
            rtt = 0.020 + random.random() * 0.004 + (0.43 * ((i * 7 + k * 3) % 20) / 20 if full else 0)
            if not (full and random.random() < 0.06 or 100 <= k < 106):
                pings.append(rtt)
        pings.sort()
        unknown = PINGS - len(pings)
        row = ([None] * (unknown // 2) + pings + [None] * PINGS)[:PINGS]
        median = pings[len(pings) // 2] if pings else None
        text = ":".join("U" if v is None else f"{v:.6e}" for v in [median, *row])
        subprocess.check_call(["rrdtool", "update", file, f"{BEGIN + STEP * k}:U:{unknown}:{text}"])


def flent(rec, file):
    """One ping and one rate every 200 ms, as flent's tcp_1up has them."""
    import pyarrow.parquet
    from flent import resultset

    def rows(table):
        return pyarrow.parquet.read_table(next((pathlib.Path(rec) / table).glob("*.parquet"))).to_pylist()

    edges = {r["kind"]: r["t_ns"] for r in rows("event") if r["subject"] == "up"}
    begin, end = edges["phase"], edges["phase_end"]
    first, step = begin - 3 * 10**9, 0.2
    probes = sorted((r["sent_ns"], r["rtt_ns"]) for r in rows("delay"))
    flows = {}
    for r in sorted(rows("flow"), key=lambda r: r["t_ns"]):
        if r["direction"] == "up":
            flows.setdefault(r["flow"], []).append((r["t_ns"], r["bytes_received"] or r["bytes_acked"] or 0))

    def carried(t):
        last = (bisect.bisect_right(samples, (t, 1 << 62)) for samples in flows.values())
        return sum(samples[at - 1][1] for samples, at in zip(flows.values(), last) if at)

    times, pings, rates, raw = [], [], [], []
    for k in range(round((end - begin + 6 * 10**9) / 1e9 / step)):
        a, b = first + k * step * 1e9, first + (k + 1) * step * 1e9
        at = bisect.bisect_left(probes, (a, 0))
        sent, rtt = probes[at] if at < len(probes) and probes[at][0] < b else (0, None)
        times.append(round((k + 1) * step, 3))
        pings.append(rtt and rtt / 1e6)
        rates.append((carried(b) - carried(a)) * 8e-6 / step if begin <= a <= end else None)
        if rtt:
            raw.append({"t": sent / 1e9, "val": rtt / 1e6, "seq": k})
    result = resultset.ResultSet(
        NAME="tcp_1up", HOST="far", LOCAL_HOST="near", TITLE="ADSL", TIME=datetime.datetime.utcfromtimestamp(first / 1e9),
        LENGTH=14, TOTAL_LENGTH=20, STEP_SIZE=step, DELAY=3, NOTE=None, IP_VERSION=4, FAILED_RUNNERS=0,
        DATA_FILENAME=pathlib.Path(file).name, TEST_PARAMETERS={},
        SERIES_META={"Ping (ms) ICMP": {"UNITS": "ms"}, "TCP upload": {"UNITS": "Mbits/s"}})
    result.set_x_values(times)
    result.add_result("Ping (ms) ICMP", pings)
    result.add_result("TCP upload", rates)
    result.add_raw_values("Ping (ms) ICMP", raw)
    result.dump_file(file)


if __name__ == "__main__":
    {"smokeping": smokeping, "flent": flent}[sys.argv[1]](*sys.argv[2:])
