#!/usr/bin/env python3
"""The monitor at 1 kHz for half an hour, in namespaces, with faults injected: every slot must have its row.

    sudo python3 bench/soak.py [--minutes 32] [--interval 1ms]

Needs root (network namespaces), target/release/tailback and target/release/examples/account
(cargo build --release -p tailback-store --example account). Prints what was done and when, what the process took,
and the account of the recording. Exits with 1 where a row is missing. The wall clock is left alone: a namespace
shares it with the host; crates/measure/tests/lasting.rs sets it in virtual time.
"""
import argparse, os, shutil, signal, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NEAR, FAR = f"soak-near-{os.getpid()}", f"soak-far-{os.getpid()}"
PORT = "7117"


def sh(command, check=True):
    return subprocess.run(command, shell=True, check=check, text=True, capture_output=True)


def cable(near="10.99.0.1/24"):
    sh(f"ip -n {NEAR} link add line type veth peer name line netns {FAR}")
    for ns, address in ((NEAR, near), (FAR, "10.99.0.9/24")):
        sh(f"ip -n {ns} address add {address} dev line && ip -n {ns} link set line up")


def in_ns(ns, *command):
    return subprocess.Popen(
        ["ip", "netns", "exec", ns, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def usage(pid):
    """CPU seconds and the resident set in kB."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])
    rss = [l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")][0].split()[1]
    return ticks / os.sysconf("SC_CLK_TCK"), int(rss)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--minutes", type=float, default=32)
    args.add_argument("--interval", default="1ms")
    args.add_argument("--keep", help="where the recording stays")
    args = args.parse_args()
    total = args.minutes * 60
    work = tempfile.mkdtemp(prefix="soak-")
    program = shutil.copy(f"{ROOT}/target/release/tailback", work)
    account = shutil.copy(f"{ROOT}/target/release/examples/account", work)
    record = args.keep or f"{work}/soak.rec"
    server = monitor = None
    try:
        for ns in (NEAR, FAR):
            sh(f"ip netns add {ns} && ip -n {ns} link set lo up")
        cable()
        serve = lambda: in_ns(FAR, program, "serve", "--listen", f"10.99.0.9:{PORT}")
        server = serve()
        time.sleep(0.5)
        monitor = in_ns(
            NEAR, program, "monitor", "10.99.0.9", "icmp:10.99.0.9,10 ms", f"tcp:10.99.0.9:{PORT}",
            "--interval", args.interval, "--interface", "line", "--output", record, "--quiet",
        )
        began = time.monotonic()
        done = lambda what: print(f"{time.monotonic() - began:7.1f} s  {what}", flush=True)

        def at(share):
            time.sleep(max(0, began + share * total - time.monotonic()))
            cpu, rss = usage(monitor.pid)
            done(f"[{cpu:.1f} s of CPU so far, {rss} kB resident]")

        at(0.08)
        sh(f"ip -n {NEAR} link set line down")
        done("interface down for 20 s")
        time.sleep(20)
        sh(f"ip -n {NEAR} link set line up")
        done("interface up")
        at(0.18)
        server.kill()
        server.wait()
        done("server killed, away for 30 s")
        time.sleep(30)
        server = serve()
        done("server restarted")
        at(0.28)
        os.kill(monitor.pid, signal.SIGSTOP)
        done("monitor stopped (SIGSTOP) for 25 s")
        time.sleep(25)
        os.kill(monitor.pid, signal.SIGCONT)
        at(0.38)
        os.kill(monitor.pid, signal.SIGHUP)
        done("terminal hung up (SIGHUP)")
        at(0.45)
        server.kill()
        server.wait()
        server = serve()
        done("server restarted at once")
        at(0.53)
        sh(f"ip -n {FAR} link set line down")
        done("far end's interface down for 154 s, carrier lost here")
        time.sleep(min(154, total * 0.12))
        sh(f"ip -n {FAR} link set line up")
        done("up again")
        at(0.72)
        sh(f"ip -n {NEAR} link delete line")
        done("interface gone for 10 s")
        time.sleep(10)
        cable("10.99.0.77/24")
        done("interface back, with another address")
        at(0.86)
        sh(f"ip -n {NEAR} address del 10.99.0.77/24 dev line && ip -n {NEAR} address add 10.99.0.78/24 dev line")
        done("address changed")
        at(0.93)
        sh(f"ip -n {FAR} address del 10.99.0.9/24 dev line")
        time.sleep(5)
        sh(f"ip -n {FAR} address add 10.99.0.9/24 dev line")
        done("server's address away for 5 s")
        at(1.0)
        os.kill(monitor.pid, signal.SIGTERM)
        code = monitor.wait(timeout=120)
        done(f"told to end (SIGTERM); exit code {code}")
        told = subprocess.run([account, record], text=True, capture_output=True)
        print(told.stdout + told.stderr)
        size = sh(f"du -sk {record}").stdout.split()[0]
        print(f"{size} kB on disk")
        return told.returncode or code
    finally:
        for p in (monitor, server):
            if p and p.poll() is None:
                p.kill()
                p.wait()
        for ns in (NEAR, FAR):
            sh(f"ip netns delete {ns}", check=False)
        if args.keep is None:
            shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
