"""A hundred points behind drawn links on one machine: kills and cuts, then ledger = store = sum of the agents' counters.

Each point is an agent in a network namespace of its own, behind a token bucket each way whose rate and buffer are drawn. Agents and
hub are killed and links are cut at drawn moments. Needs root and `sqlite3` of Python. Nothing leaves the machine.
Usage: python3 bench/fleet_hundred.py [POINTS] [SECONDS] [SEED]
"""

import collections
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from star import Star, inside, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAILBACK = ROOT / "target/release/tailback"
HOME = ROOT / "target/fleet-hundred"
HUB = "10.214.0.1"
STAR = Star("tailback-hundred", f"{HUB}/16")
PLAN = f"""
report_every_s = 10

[[measurement]]
name = "watch"
run = "monitor {HUB} --interval 1s"
every_s = 20
at_most_s = 20

[[measurement]]
name = "load"
run = "test {HUB} --phases idle,down,up --longest 3s --budget 10MB"
every_s = 120
at_most_s = 40
wait_s = 60
"""
# Ticks of the clock in /proc, a second.
TICKS = os.sysconf("SC_CLK_TCK")


def network(points, draw):
    """Points around the core, each with drawn rates and buffers."""
    def bucket(least, most):
        rate = least * (most / least) ** draw.random()
        return "rate", f"{rate:.3f}mbit", "burst", "5kb", "latency", f"{draw.uniform(30, 800):.0f}ms"

    STAR.lay()
    for number, point in enumerate(points):
        address = f"10.214.{1 + number // 200}.{10 + number % 200}/16"
        STAR.add(point, address, up=bucket(0.3, 10), down=bucket(1, 50))


class Fleet:
    """Hub, server and agents as processes."""

    def __init__(self, points):
        self.points = points
        self.processes = {}

    def start(self, name, where, *words):
        out = open(HOME / f"{name}.log", "a")
        self.processes[name] = subprocess.Popen(inside(where, TAILBACK, *words), stdout=out, stderr=out)

    def start_hub(self):
        self.start("hub", STAR.core, "hub", "--data", HOME / "hub", "--listen", f"{HUB}:8443")

    def start_agent(self, point, *join):
        self.start(point, STAR.of(point), "agent", "--data", HOME / point, *join)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGINT)
        for process in self.processes.values():
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()


def cost(process):
    """Memory that a process has had at most, MB; what of it is its own, MB; and its processor time, s."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    most = int(status.split("VmHWM:")[1].split()[0]) / 1e3
    own = int(status.split("RssAnon:")[1].split()[0]) / 1e3
    ticks = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return most, own, (int(ticks[11]) + int(ticks[12])) / TICKS


def trouble(fleet, seconds, draw):
    """Kills agents and the hub and cuts links, at drawn moments."""
    counted = collections.Counter()
    mend = []
    end = time.monotonic() + seconds
    next_hub = time.monotonic() + draw.uniform(20, 40)
    while time.monotonic() < end:
        time.sleep(draw.uniform(0.5, 2))
        now = time.monotonic()
        for due, action in [m for m in mend if m[0] <= now]:
            action()
        mend = [m for m in mend if m[0] > now]
        point = draw.choice(fleet.points)
        what = draw.choice(["kill", "cut", "nothing"])
        if now > next_hub:
            next_hub = now + draw.uniform(30, 60)
            fleet.kill("hub")
            fleet.start_hub()
            counted["kills of the hub"] += 1
        elif what == "kill":
            fleet.kill(point)
            fleet.start_agent(point)
            counted["kills of an agent"] += 1
        elif what == "cut":
            device = inside(STAR.of(point), "ip", "link", "set", "eth0")
            run(*device, "down")
            mend.append((now + draw.uniform(1, 15), lambda device=device: run(*device, "up")))
            counted["cuts of a link"] += 1
    for _, action in mend:
        action()
    return counted


def left(point):
    """Recordings that a point still has, and runs that the hub has not heard of."""
    runs = json.loads((HOME / point / "runs.json").read_text())
    return len(list((HOME / point / "spool").iterdir())) + len(runs["waiting"])


def drained(fleet, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        late = [p for p in fleet.points if left(p)]
        if not late:
            return True
        time.sleep(1)
    print(f"still waiting after {seconds} s: {', '.join(late)}")
    return False


def stored(recording):
    """Rows of a recording in the store, read by the program and counted here."""
    to = HOME / "counted" / f"{recording.parent.name}-{recording.name}"
    subprocess.run([TAILBACK, "export", recording, "--output", to, "--quiet", "--format", "json"], check=True, capture_output=True)
    rows = sum(file.read_bytes().count(b"\n") for file in to.iterdir())
    shutil.rmtree(to)
    return rows


def check(points):
    """Compares the agents' counters, the ledger and the store, point by point."""
    ledger = sqlite3.connect(f"file:{HOME}/hub/ledger.sqlite?mode=ro", uri=True)
    (HOME / "counted").mkdir()
    failed = []
    total = collections.Counter()
    with ThreadPoolExecutor(4) as pool:
        for point in points:
            sums = json.loads((HOME / point / "sums.json").read_text())
            rows = ledger.execute("select name, rows, verdict from recording where point = ?", (point,)).fetchall()
            kept = sorted((HOME / "hub/points" / point).glob("*.rec"))
            in_store = sum(pool.map(stored, kept))
            ours = (sums["recordings"], sums["rows"])
            hubs = (len(rows), sum(r[1] for r in rows))
            if not ours == hubs == (len(kept), in_store):
                failed.append(f"{point}: agent {ours}, ledger {hubs}, store {(len(kept), in_store)}")
            places = [p for (p,) in ledger.execute("select place from run where point = ? order by place", (point,))]
            if places != list(range(len(places))):
                failed.append(f"{point}: its runs have gaps: {places}")
            lost = "select count(*) from run where point = ? and recording is not null and recording not in (select name from recording where point = ?)"
            if ledger.execute(lost, (point, point)).fetchone()[0]:
                failed.append(f"{point}: a run names a recording that the hub does not have")
            total.update(recordings=len(rows), rows=hubs[1], quarantined=sum(r[2] != "stored" for r in rows))
    outcomes = dict(ledger.execute("select measurement || ' ' || outcome, count(*) from run group by 1").fetchall())
    return failed, total, outcomes


def loads():
    """Loads of the server by its own log, and those of them that began while another point's went on."""
    lines = (json.loads(line) for line in open(HOME / "serve.log") if line.startswith("{"))
    ends = [(s["time_ns"], s["duration_s"] * 1e9, s["client"]) for s in lines if s.get("what") in ("download", "upload")]
    spans = sorted((end - took, end, client) for end, took, client in ends)
    last = {}
    together = 0
    for begin, end, client in spans:
        together += any(until > begin for other, until in last.items() if other != client)
        last[client] = max(end, last.get(client, 0))
    return len(spans), together


def main():
    count, seconds, seed = (int(word) for word in (sys.argv[1:] + ["100", "180", "1"][len(sys.argv) - 1:]))
    draw = random.Random(seed)
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir(parents=True)
    STAR.remove()
    points = [f"p{n}" for n in range(count)]
    fleet = Fleet(points)
    try:
        network(points, draw)
        fleet.start("serve", STAR.core, "serve", "--listen", f"{HUB}:7117", "--state", HOME / "serve", "--max-clients", 4 * count, "--log", "json")
        fleet.start_hub()
        time.sleep(2)
        (HOME / "plan.toml").write_text(PLAN)
        run(TAILBACK, "fleet", "plan", HOME / "plan.toml", "--data", HOME / "hub")
        for point in points:
            invite = [TAILBACK, "hub", "invite", "--data", HOME / "hub", "--name", point]
            code = subprocess.run(invite, check=True, capture_output=True, text=True).stdout.strip()
            fleet.start_agent(point, "--join", f"https://{HUB}:8443", code, "--agree")
        print(f"seed {seed}: {count} points, {seconds} s", flush=True)
        time.sleep(15)
        troubles = trouble(fleet, seconds, draw)
        print(", ".join(f"{n} {what}" for what, n in troubles.items()), flush=True)
        ended = [p for p in points if fleet.processes[p].poll() is not None]
        agents = [cost(fleet.processes[p]) for p in points if p not in ended]
        hub = cost(fleet.processes["hub"])
        # Nothing new is measured; what is under way ends and is uploaded.
        (HOME / "plan.toml").write_text("report_every_s = 10\n")
        run(TAILBACK, "fleet", "plan", HOME / "plan.toml", "--data", HOME / "hub")
        all_in = drained(fleet, 240)
    finally:
        fleet.stop()
        STAR.remove()
    failed, total, outcomes = check([p for p in points if p not in ended])
    failed += [f"{p}: its agent ended by itself: see {HOME}/{p}.log" for p in ended]
    print(f"{total['recordings']} recordings, {total['rows']} rows, {total['quarantined']} in quarantine; {outcomes}")
    print("{} loads of the server, {} of them beside another point's".format(*loads()))
    most, own, cpu = zip(*agents)
    print(f"agent: {statistics.median(most):.1f} MB, {statistics.median(own):.1f} MB its own, {statistics.median(cpu):.2f} CPU-s (medians)")
    print(f"hub since its last start: {hub[0]:.1f} MB at most, {hub[2]:.1f} CPU-s")
    print("\n".join(failed) or "ledger = store = sum of the agents' counters at every point")
    sys.exit(1 if failed or not all_in else 0)


main()
