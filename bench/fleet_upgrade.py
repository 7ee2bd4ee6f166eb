#!/usr/bin/env python3
"""Good and bad releases drawn at random over a fleet of agents: who falls silent, and how long a point takes to heal.

Usage: python3 bench/fleet_upgrade.py [--seed N] [--points N] [--releases N] [--within S] [--every S] [--tailback FILE]

A hub and N agents run on this machine. Each agent tests an emulated link in virtual time every so often and reports each 10 s.
Releases are scripts around the program, signed by minisign, and go to 1, 10 and 100 % of the points. A bad one fails in a way that is
drawn at random. The status of the fleet is read each second. A point is silent while the hub has had no report of it for two periods, or
no new recording for three. It prints one row per release and, at the end, whether hub and agents agree on the number of rows.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PLAN = """
report_every_s = 10
upgrade_within_s = {within}
[[measurement]]
name = "cable"
every_s = {every}
at_most_s = 60
run = "test --link cable --virtual --seed 3"
"""
# What a release does in place of the program.
BAD = {
    "no program": "this is no program",
    "ends at once": "#!/bin/sh\nexit 1\n",
    "ends after seconds": "#!/bin/sh\nsleep {some}\nexit 1\n",
    "hangs": "#!/bin/sh\nexec sleep 86400\n",
    "hangs and ignores signals": "#!/bin/sh\ntrap '' INT TERM\nwhile :; do sleep 1; done\n",
    "dies by a signal": "#!/bin/sh\nsleep 0.{some}\nkill -SEGV $$\n",
    "cannot measure": "#!/bin/sh\nmkdir -p /tmp/none && exec env PATH=/none {program} agent --data /none --join x y\n",
    "lives for seconds only": "#!/bin/sh\nexec timeout -s KILL 0.{some} {program} \"$@\"\n",
}


def run(*command, ok=(0,)):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in ok:
        sys.exit(f"{command} failed with {done.returncode}: {done.stderr}")
    return done.stdout.strip()


class Silence:
    """Points from which nothing comes."""

    def __init__(self, every):
        self.last, self.every = {}, every

    def look(self, status):
        now, silent = time.monotonic(), set()
        for p in status["points"]:
            count, since = self.last.get(p["name"], (None, now))
            if count != p["recordings"]:
                count, since = p["recordings"], now
            self.last[p["name"]] = (count, since)
            if p["health"] == "silent" or now - since > 3 * self.every:
                silent.add(p["name"])
        return silent


class Fleet:
    def __init__(self, tailback, points, within, every):
        self.tailback, self.home = tailback, tempfile.mkdtemp(prefix="upgrades-")
        self.data, self.processes = f"{self.home}/hub", []
        hub = self.start("hub", "--data", self.data, "--listen", "127.0.0.1:0", "--json", stdout=subprocess.PIPE)
        text = ""
        while not text.rstrip().endswith("}"):
            text += hub.stdout.readline()
        self.url = f"https://{json.loads(text)['listen']}"
        run("minisign", "-G", "-W", "-p", f"{self.home}/key.pub", "-s", f"{self.home}/key.sec")
        run(tailback, "fleet", "upgrade", "--data", self.data, "--key", f"{self.home}/key.pub")
        with open(f"{self.home}/plan.toml", "w") as f:
            f.write(PLAN.format(within=within, every=every))
        run(tailback, "fleet", "plan", f"{self.home}/plan.toml", "--data", self.data)
        for n in range(points):
            name = f"point-{n:03}"
            code = run(tailback, "hub", "invite", "--data", self.data, "--name", name)
            self.start("agent", "--data", f"{self.home}/{name}", "--join", self.url, code, "--agree")

    def start(self, *args, stdout=subprocess.DEVNULL):
        command = [self.tailback, *args]
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, text=True, process_group=0)
        self.processes.append(process)
        return process

    def status(self):
        return json.loads(run(self.tailback, "fleet", "status", "--data", self.data, "--json"))

    def publish(self, version, script):
        file = f"{self.home}/tailback-{version}"
        with open(file, "w") as f:
            f.write(script)
        target = f"{os.uname().machine}-linux"
        run("minisign", "-S", "-s", f"{self.home}/key.sec", "-t", f"tailback {version} {target}", "-m", file)
        run(self.tailback, "fleet", "upgrade", file, "--data", self.data, "--stage-time", "5s")

    def end(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.home, ignore_errors=True)


def watch(fleet, silence, count, patience):
    """Follows a release to its end: seconds, most silent points at once, points that tried it, outcome."""
    began, silent, worst, first, healed = time.monotonic(), set(), 0, None, None
    while True:
        status = fleet.status()
        now = time.monotonic() - began
        gone = silence.look(status)
        silent |= gone
        worst = max(worst, len(gone))
        release = status["release"]
        if first is None and release["points"]["trying"]:
            first = now
        if release["halted"]:
            back = [p for p in status["points"] if p["release"] == "failed"]
            if healed is None:
                healed = now
            return now, worst, silent, len(back), (healed - first) if first else 0.0, "halted"
        if release["points"]["proven"] == count:
            return now, worst, silent, 0, None, "everywhere"
        if now > patience:
            return now, worst, silent, 0, None, f"not done: {release}"
        time.sleep(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=30)
    parser.add_argument("--releases", type=int, default=10)
    parser.add_argument("--within", type=int, default=60, help="upgrade_within_s of the plan")
    parser.add_argument("--every", type=int, default=20, help="seconds between two tests of a point")
    parser.add_argument("--tailback", default="target/release/tailback")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tailback, rng = os.path.abspath(given.tailback), random.Random(given.seed)
    fleet = Fleet(tailback, given.points, given.within, given.every)
    try:
        print(f"seed {given.seed}, {given.points} points, a recording must be back within {given.within} s")
        while sum(p["recordings"] > 0 for p in fleet.status()["points"]) < given.points:
            time.sleep(1)
        print("\n| release | outcome | s | points that returned | back after, s | silent at once, most |\n|---|---|---|---|---|---|")
        total_silent, wrong, silence = set(), [], Silence(given.every)
        for n in range(given.releases):
            kind = rng.choice([*BAD, "good", "good"])
            script = BAD.get(kind, "#!/bin/sh\nexec {program} \"$@\"\n")
            script = script.replace("{some}", str(rng.randint(1, 9))).replace("{program}", tailback)
            fleet.publish(f"1.{n}.0", script)
            took, worst, silent, back, healed, outcome = watch(fleet, silence, given.points, 600)
            total_silent |= silent
            healed = "–" if healed is None else f"{healed:.0f}"
            print(f"| {kind} | {outcome} | {took:.0f} | {back} | {healed} | {worst} |", flush=True)
            if outcome != ("everywhere" if kind == "good" else "halted"):
                wrong.append(kind)
        status = fleet.status()
        agents = {p["agent"] for p in status["points"]}
        print(f"\nPoints that were ever silent: {len(total_silent)} of {given.points}. Programs at the end: {', '.join(sorted(agents))}.")
        for process in fleet.processes[1:]:
            process.send_signal(signal.SIGINT)
        for process in fleet.processes[1:]:
            process.wait(timeout=120)
        outstanding = [p["rows_outstanding"] for p in fleet.status()["points"]]
        print(f"Rows that the agents closed and the hub does not have: {sum(outstanding)} ({sum(o != 0 for o in outstanding)} points).")
        sys.exit(f"wrong outcomes: {wrong}" if wrong else 0)
    finally:
        fleet.end()


if __name__ == "__main__":
    main()
