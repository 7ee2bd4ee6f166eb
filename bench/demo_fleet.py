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

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAILBACK = ROOT / "target/release/tailback"
HOME = ROOT / "demo-fleet"
CORE = "tailback-demo-core"
HUB = "10.213.0.1"
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


def run(*words):
    subprocess.run([str(w) for w in words], check=True)


def inside(namespace, *words):
    return ["ip", "netns", "exec", namespace, *[str(w) for w in words]]


def network():
    """A bridge with the hub's address, and a point behind each of its ports."""
    run("ip", "netns", "add", CORE)
    run(*inside(CORE, "ip", "link", "add", "br0", "type", "bridge"))
    run(*inside(CORE, "ip", "addr", "add", f"{HUB}/24", "dev", "br0"))
    for link in ("lo", "br0"):
        run(*inside(CORE, "ip", "link", "set", link, "up"))
    for number, point in enumerate(POINTS):
        name = f"tailback-demo-{point}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", f"p{number}", "netns", CORE)
        run(*inside(CORE, "ip", "link", "set", f"p{number}", "master", "br0", "up"))
        run(*inside(name, "ip", "addr", "add", f"10.213.0.{10 + number}/24", "dev", "eth0"))
        for link in ("lo", "eth0"):
            run(*inside(name, "ip", "link", "set", link, "up"))
        latency = "800ms" if point == "deep-queue" else "30ms"
        for namespace, link, rate in ((name, "eth0", "3mbit"), (CORE, f"p{number}", "10mbit")):
            shape = ("root", "tbf", "rate", rate, "burst", "3kb", "latency", latency)
            run(*inside(namespace, "tc", "qdisc", "add", "dev", link, *shape))


def remove_network():
    for name in [CORE, *(f"tailback-demo-{p}" for p in POINTS)]:
        subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)


def start(processes, namespace, log, *words):
    out = open(HOME / f"{log}.log", "w")
    process = subprocess.Popen(inside(namespace, TAILBACK, *words), stdout=out, stderr=out)
    processes.append(process)
    return process


def demo(seconds, processes):
    hub = HOME / "hub"
    start(processes, CORE, "serve", "serve", "--listen", f"{HUB}:7117", "--state", HOME / "serve")
    start(processes, CORE, "hub", "hub", "--data", hub, "--listen", f"{HUB}:8443")
    time.sleep(2)
    (HOME / "plan.toml").write_text(PLAN)
    run(TAILBACK, "fleet", "plan", HOME / "plan.toml", "--data", hub)
    for point in POINTS:
        invite = [TAILBACK, "hub", "invite", "--data", hub, "--name", point]
        code = subprocess.run(invite, check=True, capture_output=True, text=True).stdout.strip()
        join = ("agent", "--data", HOME / point, "--join", f"https://{HUB}:8443", code, "--agree")
        start(processes, f"tailback-demo-{point}", point, *join)
    print(f"{len(POINTS)} points measure for {seconds} s", flush=True)
    time.sleep(seconds / 2)
    run(*inside("tailback-demo-cut-off", "ip", "link", "set", "eth0", "down"))
    time.sleep(seconds / 2)
    run(TAILBACK, "fleet", "status", "--data", hub)
    print(f"\nrecordings: {hub}/points; one point: {TAILBACK} analyse {hub}/points/village-1/load*")


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 90
    shutil.rmtree(HOME, ignore_errors=True)
    HOME.mkdir()
    remove_network()
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
        remove_network()


main()
