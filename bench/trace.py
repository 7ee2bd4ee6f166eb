#!/usr/bin/env python3
"""`tailback trace` beside tcptrace, tshark and `cat`, on captures made for it, in CPU seconds.

    bench/trace.py [--dir DIR] [--rounds 5] [--only big,flows10k,flows200k,full] [--keep] [--no-tshark]

Makes the captures that are missing in DIR (default: a temporary directory that is removed at the end):

    big        about 1 GB, snaplen 128, at the sender: kernel TCP (CUBIC, BBR, Reno, IPv4 and IPv6) through token buckets
               of 20 Mbit/s to 1 Gbit/s, and with segmentation offload through none. Needs root, iproute2, ethtool,
               iperf3 and tcpdump; takes two and a half minutes
    full       about 350 MB, full size, of the same kind
    flows10k   12 000 connections, 3 600 open at once, real ones between two namespaces
    flows200k  200 000 connections, 100 000 open at once, synthetic: the worst case for caches

`--flood` instead sends ten million SYNs, each of a connection of its own, through a pipe into `tailback trace`, and prints
CPU seconds and the most memory.

Then runs every program that is installed on each of them, in turn, so that a busy machine is busy for all, and prints
the least and the median of user + system time, the most memory, and the ratio to ours. The file is in the page cache.
"""
import argparse
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Rate, burst and limit of the token bucket; flows, controller, seconds; then what is special.
BIG = [
    ("20mbit 16kb 120kb", 4, "cubic", 15, ""),
    ("100mbit 32kb 300kb", 8, "cubic", 10, ""),
    ("100mbit 32kb 3000kb", 8, "cubic", 10, ""),
    ("100mbit 32kb 300kb", 8, "bbr", 10, ""),
    ("20mbit 16kb 120kb", 2, "reno", 10, "v6"),
    ("1gbit 128kb 400kb", 16, "cubic", 60, ""),
    ("", 4, "cubic", 3, ""),
    ("", 2, "cubic", 3, "offload"),
]
FULL = [
    ("20mbit 16kb 60kb", 2, "cubic", 10, ""),
    ("100mbit 32kb 250kb", 4, "reno", 12, ""),
    ("100mbit 32kb 3000kb", 4, "cubic", 10, ""),
    ("100mbit 32kb 250kb", 2, "cubic", 3, "v6"),
]


def sh(command, **kw):
    return subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL, **kw)


class Path:
    """Client, router, server; the bucket is on the router towards the server."""

    def __init__(self):
        self.c, self.r, self.s = (f"tbt{os.getpid()}{x}" for x in "crs")

    def __enter__(self):
        c, r, s = self.c, self.r, self.s
        for n in (c, r, s):
            sh(f"ip netns add {n} && ip -n {n} link set lo up")
        sh(f"ip link add c0 netns {c} type veth peer name r0 netns {r}; ip link add s0 netns {s} type veth peer name r1 netns {r}")
        for n, dev, four, six in ((c, "c0", "10.77.1.2", "fd77:1::2"), (r, "r0", "10.77.1.1", "fd77:1::1"),
                                  (r, "r1", "10.77.2.1", "fd77:2::1"), (s, "s0", "10.77.2.2", "fd77:2::2")):
            sh(f"ip -n {n} addr add {four}/24 dev {dev}; ip -n {n} addr add {six}/64 dev {dev} nodad; ip -n {n} link set {dev} up")
        for n, end in ((c, 1), (s, 2)):
            sh(f"ip -n {n} route add default via 10.77.{end}.1; ip -n {n} -6 route add default via fd77:{end}::1")
        sh(f"ip netns exec {r} sysctl -q -w net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        self.offload("off")
        return self

    def __exit__(self, *_):
        for n in (self.c, self.r, self.s):
            subprocess.run(["ip", "netns", "del", n])

    def offload(self, state):
        for n, dev in ((self.c, "c0"), (self.r, "r0"), (self.r, "r1"), (self.s, "s0")):
            sh(f"ip netns exec {n} ethtool -K {dev} tso {state} gso {state} gro {state}", stderr=subprocess.DEVNULL)

    def bucket(self, spec):
        subprocess.run(f"ip netns exec {self.r} tc qdisc del dev r1 root", shell=True, stderr=subprocess.DEVNULL)
        if spec:
            rate, burst, limit = spec.split()
            sh(f"ip netns exec {self.r} tc qdisc add dev r1 root tbf rate {rate} burst {burst} limit {limit}")

    def record(self, file, snaplen):
        dump = subprocess.Popen(["ip", "netns", "exec", self.c, "tcpdump", "-Z", "root", "-i", "c0", "-s", str(snaplen), "-B", "262144", "-w", str(file)],
                                stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        return dump

    def iperf(self, phases):
        with subprocess.Popen(["ip", "netns", "exec", self.s, "iperf3", "-s", "-p", "5201"], stdout=subprocess.DEVNULL) as server:
            time.sleep(0.5)
            for spec, flows, controller, seconds, special in phases:
                self.bucket(spec)
                self.offload("on" if special == "offload" else "off")
                target = "fd77:2::2" if special == "v6" else "10.77.2.2"
                print(f"  {spec or 'no limit'}: {flows} {controller} {seconds} s {special}", file=sys.stderr)
                sh(f"ip netns exec {self.c} iperf3 -c {target} -p 5201 -P {flows} -C {controller} -t {seconds}")
            server.terminate()


def stop(dump):
    time.sleep(1)
    dump.send_signal(signal.SIGINT)
    said = dump.communicate()[1]
    print("  " + ", ".join(line for line in said.splitlines() if line[:1].isdigit()), file=sys.stderr)


def make_iperf(phases, snaplen):
    def make(file):
        with Path() as path:
            dump = path.record(file, snaplen)
            path.iperf(phases)
            stop(dump)
    return make


CONNECTIONS, HELD, PAYLOAD = 3000, 900, 3000


def serve_small():
    """Echoes 3000 bytes to each connection and holds it until its client closes."""
    import selectors
    select, listener = selectors.DefaultSelector(), socket.create_server(("10.77.2.2", 5202), backlog=4096)
    listener.setblocking(False)
    select.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in select.select():
            if key.fileobj is listener:
                peer, _ = listener.accept()
                select.register(peer, selectors.EVENT_READ)
                continue
            data = key.fileobj.recv(65536)
            if data:
                key.fileobj.sendall(data)
            else:
                select.unregister(key.fileobj)
                key.fileobj.close()


def connect_small():
    held = []
    for _ in range(CONNECTIONS):
        s = socket.create_connection(("10.77.2.2", 5202))
        s.sendall(bytes(PAYLOAD))
        left = PAYLOAD
        while left:
            left -= len(s.recv(left))
        held.append(s)
        if len(held) > HELD:
            held.pop(0).close()


def make_small(file):
    with Path() as path:
        run = lambda n, what: ["ip", "netns", "exec", n, sys.executable, __file__, "--role", what]
        server = subprocess.Popen(run(path.s, "serve"))
        dump = path.record(file, 128)
        clients = [subprocess.Popen(run(path.c, "connect")) for _ in range(4)]
        if any(c.wait() for c in clients):
            raise SystemExit("a client failed")
        stop(dump)
        server.kill()


def make_synthetic(file, connections=200_000, live=100_000):
    """Six packets a connection: handshake, a request, its answer, a reset."""
    chance = random.Random(1)
    with open(file, "wb", buffering=1 << 20) as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 128, 1))
        t = 1_700_000_000_000_000
        ether = bytes(12) + b"\x08\x00"

        def packet(n, step):
            nonlocal t
            t += 8
            client, port = 0x0A00_0001 + n // 50_000, 10_000 + n % 50_000
            back, seq, ack, flags, payload = [(0, 0, 0, 2, 0), (1, 0, 1, 18, 0), (0, 1, 1, 16, 0),
                                              (0, 1, 1, 24, 100), (1, 1, 101, 24, 1000), (0, 101, 1001, 20, 0)][step]
            src, dst, sport, dport = (client, 0x0A63_0001, port, 443) if not back else (0x0A63_0001, client, 443, port)
            ip = struct.pack(">BBHHHBBHII", 0x45, 0, 40 + payload, t & 0xFFFF, 0x4000, 64, 6, 0, src, dst)
            first, other = (5000 + n, 1000 + n) if back else (1000 + n, 5000 + n)
            tcp = struct.pack(">HHIIBBHHH", sport, dport, first + seq, (other + ack) if flags & 16 else 0, 0x50, flags, 65535, 0, 0)
            data = ether + ip + tcp + bytes(min(payload, 128 - 54))
            out.write(struct.pack("<IIII", t // 1_000_000, t % 1_000_000, len(data), 54 + payload) + data)

        open_now = [[n, 0] for n in range(live)]
        started = live
        while open_now:
            i = chance.randrange(len(open_now))
            n, step = open_now[i]
            packet(n, step)
            open_now[i][1] += 1
            if step == 5:
                if started < connections:
                    open_now[i] = [started, 0]
                    started += 1
                else:
                    open_now[i] = open_now[-1]
                    open_now.pop()


CAPTURES = {
    "big": make_iperf(BIG, 128),
    "full": make_iperf(FULL, 0),
    "flows10k": make_small,
    "flows200k": make_synthetic,
}
# Ratios asked for in issue 6: at least so many times faster than the rivals, at most so many times `cat`, and a share of
# tcptrace's memory.
ASKED = {
    "big": {"tcptrace -n -l -r": 3.3, "tshark ack_rtt": 200, "cat": 3},
    "flows10k": {"tcptrace -n -l -r": 9, "tshark ack_rtt": 115},
    "flows200k": {"tcptrace -n -l -r": 12, "memory": 6},
}
TSHARK = ["tshark", "-n", "-d", "tcp.port==5201-5203,data", "-o", "tcp.desegment_tcp_streams:false", "-r"]
FIELDS = ["time_epoch", "stream", "seq", "len", "analysis.ack_rtt", "analysis.retransmission", "analysis.out_of_order"]


def commands(file, tailback, with_tshark):
    f = str(file)
    yield "tailback", [tailback, "trace", f], None
    # With a row of every packet kept.
    recording = f"{f}.rec"
    yield "tailback -o", ["sh", "-c", 'rm -rf "$2"; exec "$0" trace "$1" -o "$2"', tailback, f, recording], None
    yield "cat", ["cat", f], None
    if shutil.which("tcptrace"):
        yield "tcptrace -n -l -r", ["tcptrace", "-n", "-l", "-r", f], None
    if with_tshark and shutil.which("tshark"):
        # Minutes on a large file: once is enough.
        fields = [x for name in FIELDS for x in ("-e", ("frame." if name == "time_epoch" else "tcp.") + name)]
        yield "tshark ack_rtt", [*TSHARK, f, "-T", "fields", *fields], 1


def cpu_seconds(command):
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def flood(tailback, millions=10):
    """Half-open connections: 65536 ports of each of as many hosts as it takes."""
    def packet(port):
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0x4000, 64, 6, 0) + b"HOST" + b"\x0a\x63\x00\x01"
        tcp = struct.pack(">HHIIBBHHH", port, 443, 1000, 0, 0x50, 2, 65535, 0, 0)
        return b"SECS" + struct.pack("<III", port * 10, 54, 54) + bytes(12) + b"\x08\x00" + ip + tcp

    chunk = b"".join(packet(port) for port in range(65536))
    child = subprocess.Popen([tailback, "trace", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdin.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 128, 1))
    for i in range(millions * 1_000_000 // 65536 + 1):
        times = chunk.replace(b"SECS", struct.pack("<I", 1_700_000_000 + i))
        child.stdin.write(times.replace(b"HOST", struct.pack(">I", 0x0B00_0000 + i)))
    child.stdin.close()
    said = child.stdout.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    print("\n".join(said.splitlines()[:4]))
    print(f"ended with {child.returncode} after {usage.ru_utime + usage.ru_stime:.2f} CPU seconds, {usage.ru_maxrss / 1024:.0f} MiB at most")


def compare(name, file, args):
    runs = {}
    for turn in range(args.rounds):
        for label, command, most in commands(file, args.tailback, not args.no_tshark):
            if most is None or turn < most:
                runs.setdefault(label, []).append(cpu_seconds(command))
    print(f"\n{name}: {file.stat().st_size / 1e6:.0f} MB")
    print(f"{'':20} {'least s':>8} {'median s':>9} {'MiB':>7} {'ratio':>7}")
    ours = min(s for s, _ in runs["tailback"])
    for label, values in runs.items():
        seconds = [s for s, _ in values]
        least = min(seconds)
        print(f"{label:20} {least:8.3f} {statistics.median(seconds):9.3f} {max(m for _, m in values):7.1f} {least / ours:7.2f}", flush=True)
    recording = pathlib.Path(f"{file}.rec")
    size = sum(part.stat().st_size for part in recording.rglob("*") if part.is_file())
    print(f"the recording has {size / 1e6:.1f} MB")
    shutil.rmtree(recording)
    for label, asked in ASKED.get(name, {}).items():
        if label == "memory" and (rival := runs.get("tcptrace -n -l -r")):
            print(f"asked: a sixth of tcptrace's memory; it takes {rival[0][1] / max(m for _, m in runs['tailback']):.1f} times ours")
        elif label == "cat":
            print(f"asked: at most {asked} times cat; {ours / min(s for s, _ in runs['cat']):.2f}")
        elif label in runs:
            print(f"asked: {asked} times faster than {label}; {min(s for s, _ in runs[label]) / ours:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tailback", default=str(ROOT / "target/release/tailback"))
    parser.add_argument("--dir", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(CAPTURES))
    parser.add_argument("--keep", action="store_true", help="leave the captures that were made in --dir")
    parser.add_argument("--make", action="store_true", help="make the captures and stop")
    parser.add_argument("--no-tshark", action="store_true")
    parser.add_argument("--flood", action="store_true", help="ten million half-open connections through a pipe")
    parser.add_argument("--role", choices=["serve", "connect"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        return serve_small() if args.role == "serve" else connect_small()
    if args.flood:
        return flood(args.tailback)
    place = args.dir or pathlib.Path(tempfile.mkdtemp(prefix="tailback-trace-"))
    place.mkdir(parents=True, exist_ok=True)
    made = []
    try:
        for name in args.only.split(","):
            file = place / f"{name}.pcap"
            if not file.exists():
                print(f"making {file}", file=sys.stderr)
                made.append(file)
                CAPTURES[name](file)
            if not args.make:
                file.read_bytes() if file.stat().st_size < 1 << 20 else cpu_seconds(["cat", str(file)])
                compare(name, file, args)
    finally:
        if not (args.keep or args.make):
            for file in made:
                file.unlink(missing_ok=True)
        if args.dir is None and not (args.keep or args.make):
            shutil.rmtree(place)


if __name__ == "__main__":
    main()
