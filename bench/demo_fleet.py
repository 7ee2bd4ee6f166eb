"""A fleet on one machine: a hub, a server and five points in network namespaces. Needs root.

The link of one point has a deep queue, and another point loses its link half-way: `fleet status` tells both. Nothing leaves
the machine. Usage: python3 bench/demo_fleet.py [SECONDS]
"""

import pathlib
import shutil
import signal
import subprocess
import sys
import time

from star import Star, inside, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAILBACK = ROOT / "target/release/tailback"
HOME = ROOT / "demo-fleet"
HUB = "10.213.0.1"
STAR = Star("tailback-demo", f"{HUB}/24")
POINTS = ["village-1", "village-2", "village-3", "deep-queue", "cut-off"]
PLAN = f"""
report_every_s = 5

[[measurement]]
name = "watch"
run = "monitor {HUB} --interval 100ms"
every_s = 15
at_most_s = 15

[[measurement]]
name = "load"
run = "test {HUB} --phases idle,down,up --longest 6s --budget 30MB"
every_s = 60
at_most_s = 60
wait_s = 50
"""


def network():
    """Points around the core, of which one has a deep queue."""
    STAR.lay()
    for number, point in enumerate(POINTS):
        wait = ("burst", "3kb", "latency", "800ms" if point == "deep-queue" else "30ms")
        STAR.add(point, f"10.213.0.{10 + number}/24", up=("rate", "3mbit", *wait), down=("rate", "10mbit", *wait))


def start(processes, namespace, log, *words):
    out = open(HOME / f"{log}.log", "w")
    process = subprocess.Popen(inside(namespace, TAILBACK, *words), stdout=out, stderr=out)
    processes.append(process)
    return process


def demo(seconds, processes):
    hub = HOME / "hub"
    start(processes, STAR.core, "serve", "serve", "--listen", f"{HUB}:7117", "--state", HOME / "serve")
    start(processes, STAR.core, "hub", "hub", "--data", hub, "--listen", f"{HUB}:8443")
    time.sleep(2)
    (HOME / "plan.toml").write_text(PLAN)
    run(TAILBACK, "fleet", "plan", HOME / "plan.toml", "--data", hub)
    for point in POINTS:
        invite = [TAILBACK, "hub", "invite", "--data", hub, "--name", point]
        code = subprocess.run(invite, check=True, capture_output=True, text=True).stdout.strip()
        join = ("agent", "--data", HOME / point, "--join", f"https://{HUB}:8443", code, "--agree")
        start(processes, STAR.of(point), point, *join)
    print(f"{len(POINTS)} points measure for {seconds} s", flush=True)
    time.sleep(seconds / 2)
    run(*inside(STAR.of("cut-off"), "ip", "link", "set", "eth0", "down"))
    time.sleep(seconds / 2)
    run(TAILBACK, "fleet", "status", "--data", hub)
    print(f"\nrecordings: {hub}/points; one point: {TAILBACK} analyse {hub}/points/village-1/load*")


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 90
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    STAR.remove()
    processes = []
    try:
        network()
        demo(seconds, processes)
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                process.kill()
        STAR.remove()


main()
