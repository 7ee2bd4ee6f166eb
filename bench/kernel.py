#!/usr/bin/env python3
"""The Linux kernel's own queues and TCP, in virtual time, beside `tailback probe l4s` and `tailback sim`.

    bench/kernel.py l4s KERNEL [--seed S] [--count N]           the probe over random queues of the kernel
    bench/kernel.py dctcp KERNEL [--seconds S]                  flows of the kernel's DCTCP beside simulated ones
    bench/kernel.py tcp KERNEL [--seed S] [--count N]           CUBIC, Reno and BBR over random links and queues, from their start

KERNEL is a user-mode kernel that skips the time in which it waits, so that the load of this host is in no figure. To build one,
as on Debian 12: `apt install linux-source-6.12 flex bison bc ethtool`, unpack it, and in it

    make ARCH=um x86_64_defconfig
    scripts/config -e UML_TIME_TRAVEL_SUPPORT -e HOSTFS -e NET_NS -e VETH -e NET_SCHED -e NET_SCH_HTB -e NET_SCH_NETEM \\
        -e NET_SCH_CODEL -e NET_SCH_FQ_CODEL -e NET_SCH_RED -e NET_SCH_PIE -e TCP_CONG_ADVANCED -e TCP_CONG_DCTCP \\
        -e TCP_CONG_BBR -e HIGH_RES_TIMERS -e PACKET -e MAGIC_SYSRQ -d MODULES
    make ARCH=um olddefconfig linux

Inside, this script is the first process. Four namespaces stand in a row, A - R1 - R2 - B. R1 has the rate (HTB) with the queue under
it, and netem delays what leaves R1 for A and R2 for B by half of the base RTT each. It needs root inside only; the files of this
host are mounted read-only but for the directory of the results.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
TAILBACK = os.environ.get("TAILBACK", str(ROOT / "target/release/tailback"))
FAR, PORT = "10.0.3.2", 7117


# Inside the kernel.

def run(command, **more):
    words = command.split() if isinstance(command, str) else command
    return subprocess.run(words, check=True, **more)


def enter(name):
    """Moves the calling thread into a namespace."""
    namespace = os.open(f"/run/netns/{name}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, 0x40000000):
        raise OSError(ctypes.get_errno(), name)


def network(rate, delay_ms):
    run("ip link set lo up")
    for name in "A R1 R2 B".split():
        run(f"ip netns add {name}")
        run(f"ip -n {name} link set lo up")
    for i, (left, right) in enumerate([("A", "R1"), ("R1", "R2"), ("R2", "B")], 1):
        run(f"ip link add right netns {left} type veth peer name left netns {right}")
        for end, device, last in [(left, "right", 1), (right, "left", 2)]:
            run(f"ip -n {end} addr add 10.0.{i}.{last}/24 dev {device}")
            run(f"ip netns exec {end} ethtool -K {device} tso off gso off gro off", stderr=subprocess.DEVNULL)
            run(f"ip -n {end} link set {device} up")
    for name, route in [("A", "default via 10.0.1.2"), ("B", "default via 10.0.3.1"), ("R1", "10.0.3.0/24 via 10.0.2.2"),
                        ("R2", "10.0.1.0/24 via 10.0.2.1")]:
        run(f"ip -n {name} route add {route}")
    for name in ("R1", "R2"):
        run(f"ip netns exec {name} sysctl -qw net.ipv4.ip_forward=1")
    for name in ("A", "B"):
        run(f"ip netns exec {name} sysctl -qw net.ipv4.tcp_no_metrics_save=1 net.ipv4.tcp_ecn=1")
        for buffer in ("rmem=4096 131072", "wmem=4096 65536"):
            run(f"ip netns exec {name} sysctl -qw".split() + [f"net.ipv4.tcp_{buffer} 16777216"])
    run(f"tc -n R1 qdisc add dev left root netem delay {delay_ms}ms limit 100000")
    run(f"tc -n R2 qdisc add dev right root netem delay {delay_ms}ms limit 100000")
    run("tc -n R1 qdisc add dev right root handle 1: htb default 10")
    run(f"tc -n R1 class add dev right parent 1: classid 1:10 htb rate {rate} ceil {rate} burst 1600 cburst 1600")


def probe(direction):
    """Runs the probe from A to B; gives its answer."""
    serve = ["ip", "netns", "exec", "B", TAILBACK, "serve", "--listen", f"{FAR}:{PORT}", "--user", "root"]
    server = subprocess.Popen(serve + ["--allow-listen", "any"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    command = ["ip", "netns", "exec", "A", TAILBACK, "probe", f"l4s:direction={direction}", FAR, "--json", "--budget", "400MB", "-o", "/run/l4s.rec"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    server.kill()
    return json.loads(out.stdout) if out.returncode == 0 else {"error": out.stderr[-500:]}


def backlog(netlink, index):
    """Backlog of the queue in bytes, and its drops, by rtnetlink."""
    body = struct.pack("=BxxxiIII", 0, index, 0, 0, 0)
    netlink.send(struct.pack("=IHHII", 16 + len(body), 38, 0x301, 1, 0) + body)
    found = None
    while True:
        data = netlink.recv(1 << 16)
        while len(data) >= 16:
            length, kind = struct.unpack_from("=IH", data)
            if kind == 3:
                return found
            handle = struct.unpack_from("=I", data, 24)[0]
            at = 36
            while at + 4 <= length:
                size, attribute = struct.unpack_from("=HH", data, at)
                if attribute == 7 and handle == 0x100000:
                    inner, end = at + 4, at + size
                    while inner + 4 <= end:
                        part, its = struct.unpack_from("=HH", data, inner)
                        if its == 3:
                            found = struct.unpack_from("=III", data, inner + 4)[1:]
                        inner += max(4, part + 3 & ~3)
                at += max(4, size + 3 & ~3)
            data = data[length + 3 & ~3:]


def flows(controller, count, ends):
    """Runs flows from A to B; gives payload per second at B, drops and samples of the backlog each 10 ms, between each two of
    these seconds."""
    received, over = [0], threading.Event()

    def take(connection):
        buffer = bytearray(1 << 16)
        while n := connection.recv_into(buffer):
            received[0] += n

    def listen(ready):
        enter("B")
        with socket.create_server((FAR, 5000)) as server:
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller)
            ready.set()
            for _ in range(count):
                threading.Thread(target=take, args=(server.accept()[0],), daemon=True).start()

    def send():
        enter("A")
        with socket.socket() as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller)
            s.connect((FAR, 5000))
            s.settimeout(1)
            block = bytes(1 << 16)
            while not over.is_set():
                try:
                    s.send(block)
                except TimeoutError:
                    pass

    def watch():
        enter("R1")
        netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        index = socket.if_nametoindex("right")
        for first, last in zip(ends, ends[1:]):
            time.sleep(max(0, began + first - time.monotonic()))
            before, samples = (received[0], backlog(netlink, index)[1]), []
            while time.monotonic() < began + last:
                waiting, drops = backlog(netlink, index)
                samples.append(waiting)
                time.sleep(0.01)
            found.append([(received[0] - before[0]) / (last - first), drops - before[1], samples])

    ready, found = threading.Event(), []
    threading.Thread(target=listen, args=(ready,), daemon=True).start()
    ready.wait()
    began = time.monotonic()
    for _ in range(count):
        threading.Thread(target=send, daemon=True).start()
    watcher = threading.Thread(target=watch)
    watcher.start()
    watcher.join()
    over.set()
    # Everything under way arrives, so that nothing of it is in the next job.
    time.sleep(5)
    return found


def inside(results):
    jobs = json.loads((results / "jobs").read_text())
    network(jobs["rate"], jobs["delay_ms"])
    found = []
    for job in jobs["jobs"]:
        subprocess.run("tc -n R1 qdisc del dev right parent 1:10".split(), stderr=subprocess.DEVNULL, check=False)
        run(f"tc -n R1 qdisc add dev right parent 1:10 handle 10: {job['queue']}")
        if "direction" in job:
            found.append(probe(job["direction"]))
        else:
            found.append(flows(job["controller"].encode(), job["flows"], job["ends"]))
        (results / "found").write_text(json.dumps(found))


def first_process():
    os.environ["PATH"] = "/usr/sbin:/usr/bin:/sbin:/bin"
    os.environ["HOME"] = "/run"
    for kind, place in [("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run")]:
        run(f"mount -t {kind} {kind} {place}")
    results = re.search(r"results=(\S+)", pathlib.Path("/proc/cmdline").read_text()).group(1)
    run(f"mount -t hostfs none -o {results} /mnt")
    os.makedirs("/run/netns")
    try:
        inside(pathlib.Path("/mnt"))
    except BaseException:  # The power goes off before Python would tell.
        traceback.print_exc()
    finally:
        os.sync()
        pathlib.Path("/proc/sysrq-trigger").write_text("o")
        time.sleep(1)


# Outside.

def boot(kernel, rate, rtt_ms, jobs):
    """Boots the kernel for these jobs on one link; gives what they found."""
    with tempfile.TemporaryDirectory() as results:
        path = pathlib.Path(results)
        work = {"rate": f"{rate / 1e3:.0f}kbit", "delay_ms": round(rtt_ms / 2, 2), "jobs": jobs}
        (path / "jobs").write_text(json.dumps(work))
        command = [kernel, "mem=768M", "time-travel=inf-cpu", "root=none", "rootfstype=hostfs", "rootflags=/", "ro",
                   f"init={pathlib.Path(__file__).resolve()}", "con=null", "con0=fd:0,fd:1", f"results={results}"]
        console = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, errors="replace")
        try:
            return json.loads((path / "found").read_text())
        except FileNotFoundError:
            sys.exit(f"{kernel} gave nothing:\n{console.stdout[-2000:]}")


def queue(draw, name, rate, rtt_ms):
    """Queue in the words of tc, the threshold that it has, ms, and the words of a right answer."""
    threshold = draw.uniform(0.5, 5)
    if name in ("fq_codel", "codel"):
        ce = f"ce_threshold {threshold * 1000:.0f}us"
        said = "a queue of its own" if name == "fq_codel" else "but one queue: it marks"
        more = "" if name == "fq_codel" else " ecn"
        return f"{name} limit 4000{more} {ce}", threshold, said
    if name == "codel ecn":
        return f"codel limit 4000 ecn target {draw.uniform(4, 10):.1f}ms", None, "classic AQM"
    if name == "red ecn":
        least = draw.uniform(5, 15) * rate / 8e3
        burst = int(5 * least / 3600) + 1
        words = f"red limit {int(least * 30)} min {int(least)} max {int(least * 3)} avpkt 1200 burst {burst} probability {draw.uniform(0.02, 0.1):.3f}"
        # Above its largest average RED marks all, so that it marks at once as well.
        return f"{words} bandwidth {int(rate / 1e3)}kbit ecn", None, "Marks up, but one queue"
    packets = max(30, int(draw.uniform(0.5, 2) * rate * rtt_ms / 8e3 / 1250))
    return f"pfifo limit {packets}", None, "No marks"


def draws(kernel, seed, count):
    print(f"Seed {seed}. Direction, Mbit/s, RTT in ms: queue of the kernel")
    names = ["fq_codel", "codel", "codel ecn", "red ecn", "pfifo"]
    right = wrong = 0
    for i in range(count):
        draw = random.Random(f"{seed}/{i}")
        name, direction = names[i % len(names)], "up"
        rate, rtt_ms = draw.uniform(8, 60) * 1e6, draw.uniform(5, 80)
        words, threshold, said = queue(draw, name, rate, rtt_ms)
        answer, = boot(kernel, rate, rtt_ms, [{"queue": words, "direction": direction}])
        print(f"{direction}, {rate / 1e6:.1f}, {rtt_ms:.1f}: {words}", flush=True)
        if "error" in answer:
            print(f"    failed: {answer['error']}")
            continue
        found = next(f for f in answer["figures"] if f["key"] == f"threshold_{direction}_ms")
        unknown = "annot tell" in answer["says"]
        good = said in answer["says"]
        right, wrong = right + good, wrong + (not good and not unknown)
        near = ""
        if threshold and (value := found["figure"].get("value")) is not None:
            error = abs(value - threshold)
            near = f"; threshold {value:.2f}, is {threshold:.2f}" + ("" if error <= max(1, 0.15 * threshold) else ": OFF")
        print(f"    {'right' if good else 'cannot tell' if unknown else 'WRONG'}: {answer['says']}{near}", flush=True)
    print(f"{right} of {count} right, {wrong} wrong")


def figures(names, settings):
    """Figures of scenarios/linux.toml with these settings, means over five seeds."""
    command = [TAILBACK, "sim", str(ROOT / "scenarios/linux.toml"), "--json", "--seeds", "5"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    if out.returncode:
        sys.exit(out.stderr)
    found = json.loads(out.stdout)[0]["estimates"]
    return [found[name]["mean"] for name in names]


def path(rate, rtt_ms):
    """Settings of a path as the kernel's: HTB, and half of the base RTT each way."""
    return {"link.shaper": f"htb:rate={rate} bit/s,burst=1600 B", "link.delay": f"{rtt_ms / 2:.3f} ms",
            "reverse.delay": f"{rtt_ms / 2:.3f} ms", "flow.0.start": "0 s", "tcp.ecn": "true"}


def simulated(rate, rtt_ms, words, count, controller, more, seconds):
    settings = path(round(rate), rtt_ms) | {"link.queue": words, "flow.0.count": count, "flow.0.spread": "1 ms", "warmup": "5 s",
                                            "duration": f"{seconds + 5} s", "tcp.controller": controller} | more
    payload, wait = figures(["bulk.goodput_bps", "link.queue_ms.mean"], settings)
    return payload / 1e6, wait


def dctcp(kernel, seconds):
    print("| link | queue | flows | kernel's DCTCP | DCTCP | with an ACK for each segment | Prague |")
    print("|---|---|---|---|---|---|---|")
    queues = [("codel", "1"), ("codel", "2"), ("fq_codel", "1")]
    for rate in (20e6, 50e6):
        cells = [(name, ms, count) for name, ms in queues for count in (1, 2, 4)]
        jobs = [{"queue": f"{name}{' limit 1000 ecn' if name == 'codel' else ''} ce_threshold {ms}ms", "controller": "dctcp",
                 "flows": count, "ends": [5, seconds + 5]} for name, ms, count in cells]
        found = boot(kernel, rate, 20, jobs)
        for (name, ms, count), [(payload, _, samples)] in zip(cells, found):
            wait = sum(samples) / len(samples) * 8e3 / rate
            ours = f"{name}:ce_threshold={ms}ms" + (",ecn=true,mtu=1514" if name == "codel" else "")
            others = [("dctcp:whole=true", {}), ("dctcp:whole=true", {"tcp.delayed_ack": "false"}), ("prague", {})]
            told = [(payload * 8 / 1e6, wait)] + [simulated(rate, 20, ours, count, c, more, seconds) for c, more in others]
            kernels = told[0]
            # A tenth, or the time of a packet.
            off = [abs(g - kernels[0]) > 0.1 * kernels[0] or abs(w - kernels[1]) > max(0.1 * kernels[1], 12.112e6 / rate) for g, w in told]
            cells_ = " | ".join(f"{'**' if o else ''}{g:.2f}, {w:.2f} ms{'**' if o else ''}" for (g, w), o in zip(told, off))
            print(f"| {rate / 1e6:.0f} Mbit/s, 20 ms | {name}, {ms} ms | {count} | {cells_} |", flush=True)


ENDS = [0, 10, 30]
# Runs of a cell, there and here.
REPEATED = 3


def tcp_cell(draw):
    """A random link and queue: rate, RTT in ms, controller, flows, the queue in the words of tc and in ours."""
    rate = 10 ** draw.uniform(0.5, 1.7) * 1e6
    rtt_ms = 10 ** draw.uniform(1, 2.2)
    controller, count = draw.choice(["cubic", "reno", "bbr"]), draw.choice([1, 2, 4])
    packets = max(20, int(10 ** draw.uniform(-0.3, 0.6) * rate * rtt_ms / 8e3 / 1514))
    queues = {
        f"pfifo limit {packets}": f"fifo:packets={packets}",
        "codel": "codel:mtu=1514",
        "fq_codel": "fq_codel:mtu=1514,whole_backlog=true",
        "pie": "pie:variant=linux,tupdate=16ms",
    }
    words = draw.choice(list(queues))
    return round(rate), rtt_ms, controller, count, words, queues[words]


def tcp_simulated(cell, seed, window):
    rate, rtt_ms, controller, count, _, queue = cell
    ours = {"bbr": "bbr1", "cubic": "cubic:variant=linux,hystart=classic", "reno": "reno:whole=true"}[controller]
    settings = path(rate, rtt_ms) | {"link.queue": queue, "flow.0.count": count, "flow.0.spread": "0 s",
                                     "warmup": f"{window[0]} s", "duration": f"{window[1]} s", "tcp.controller": ours, "seed": seed}
    return figures(["bulk.goodput_bps", "link.queue_ms.mean", "link.queue_ms.p95", "link.drops"], settings)


def tcp(kernel, seed, count):
    print(f"Seed {seed}. Each figure: ours / the kernel's ± the deviation of its {REPEATED} runs\n")
    print("| Mbit/s | RTT ms | controller | flows | queue | seconds | goodput Mbit/s | queue mean ms | queue p95 ms | drops |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    outside = {}
    for i in range(count):
        cell = tcp_cell(random.Random(f"{seed}/{i}"))
        rate, rtt_ms, controller, many, words, _ = cell
        job = {"queue": words, "controller": controller, "flows": many, "ends": ENDS}
        runs = boot(kernel, rate, rtt_ms, [job] * REPEATED)
        for which, window in enumerate(zip(ENDS, ENDS[1:])):
            each = []
            for payload, drops, samples in (run[which] for run in runs):
                waits = sorted(8e3 * b / rate for b in samples)
                each.append([payload * 8, sum(waits) / len(waits), waits[int(0.95 * len(waits))], drops])
            ours, cells = tcp_simulated(cell, seed + i, window), []
            packet_ms = 1514 * 8e3 / rate
            for k, (mine, least) in enumerate(zip(ours, [0, packet_ms, packet_ms, 5])):
                theirs = [e[k] for e in each]
                mean, deviation = statistics.mean(theirs), statistics.stdev(theirs)
                off = abs(mine - mean) > max(0.1 * mean, 2 * deviation, least)
                total = outside.setdefault((many == 1, window), [0, 0])
                total[0] += off
                total[1] += 1
                scale, digits = [(1e-6, 2), (1, 1), (1, 1), (1, 0)][k]
                text = f"{mine * scale:.{digits}f} / {mean * scale:.{digits}f} ± {deviation * scale:.{digits}f}"
                cells.append(f"**{text}**" if off else text)
            head = f"| {rate / 1e6:.1f} | {rtt_ms:.0f} | {controller} | {many} | {words} | {window[0]}-{window[1]} | "
            print(head + " | ".join(cells) + " |", flush=True)
    print()
    for (alone, window), (off, all_) in sorted(outside.items(), key=str):
        print(f"{'One flow' if alone else 'Two and four flows'}, seconds {window[0]} to {window[1]}: {off} of {all_} figures outside.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["l4s", "dctcp", "tcp"])
    parser.add_argument("kernel")
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=35)
    args = parser.parse_args()
    if args.what == "l4s":
        draws(args.kernel, args.seed, args.count)
    elif args.what == "tcp":
        tcp(args.kernel, args.seed, args.count)
    else:
        dctcp(args.kernel, args.seconds)


if __name__ == "__main__":
    first_process() if os.getpid() == 1 else main()
