#!/usr/bin/env python3
"""Our simulated video call beside another program's rate control, on the same drawn links.

    pip install --no-deps --target /tmp/aiortc aiortc
    bench/call.py /tmp/aiortc > docs/book/sim-calls.md

The other program is aiortc's estimator, the receiver of an earlier Chrome. A small model of a first-in-first-out link is
around it, here in Python; nothing of ours is. Each call is alone on its link for 90 s, of which the last 60 count.
"""
import argparse
import importlib.util
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS, WARMUP = 90, 30
FRAMES, SIGMA = 30, 0.2
PACKET, SPEECH = 1240, 120
START, LEAST, MOST = 300e3, 50e3, 2.5e6
PACING = 2.5


def estimator(site):
    """aiortc's estimator, without the parts of the package that need FFmpeg."""
    path = pathlib.Path(site) / "aiortc"
    for name, file in (("aiortc", None), ("aiortc.utils", "utils.py"), ("aiortc.rate", "rate.py")):
        if file is None:
            sys.modules[name] = types.ModuleType(name)
            continue
        spec = importlib.util.spec_from_file_location(name, path / file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules["aiortc.rate"].RemoteBitrateEstimator()


def theirs(site, rate, rtt, buffer, seed):
    """Share of the link and p95 of the wait in ms under aiortc's estimator."""
    rng = random.Random(seed)
    far = estimator(site)
    # It starts where its first estimate does: at what arrives.
    far.rate_control.set_estimate(int(START), 0)
    target, orders = START, []
    busy, arrived, waits, queue = 0.0, 0, [], []
    frame, speech, paced, pacer, sample = 0.0, 0.0, 0.0, [], WARMUP
    while True:
        now = min(frame, speech, paced if pacer else math.inf)
        if now >= SECONDS:
            break
        while orders and orders[0][0] <= now:
            target = min(max(orders.pop(0)[1], LEAST), MOST)
        while sample < now:
            waits.append(max(0.0, busy - sample) * 1e3)
            sample += 0.01
        if now == speech:
            speech, size = speech + 0.02, SPEECH
        elif now == frame:
            frame += 1 / FRAMES
            if not pacer:
                paced = now
            mean = max(target - SPEECH * 8 * 50, 0) / 8 / FRAMES
            total = mean * math.exp(rng.gauss(-SIGMA * SIGMA / 2, SIGMA))
            count = max(1, math.ceil(total / PACKET))
            pacer += [max(41, int(total / count))] * count
            continue
        else:
            size = pacer.pop(0)
            paced = now + size * 8 / (PACING * target)
        if (busy - now) * rate / 8 > buffer:
            continue
        busy = max(busy, now) + size * 8 / rate
        came = busy + rtt / 2
        if now >= WARMUP:
            arrived += size
        stamp = int(now * (1 << 18)) & 0xFFFFFF
        answer = far.add(int(came * 1000), stamp, size, 1)
        if answer:
            orders.append((came + rtt / 2, answer[0]))
    use = arrived * 8 / (SECONDS - WARMUP) / min(rate, MOST)
    return use, sorted(waits)[int(0.95 * len(waits))]


def ours(binary, rate, rtt, buffer, seed):
    scenario = f"""
seed = {seed}
duration = "{SECONDS} s"
warmup = "{WARMUP} s"
[link]
rate = "{rate:.0f} bit/s"
delay = "{rtt * 500:.3f} ms"
queue = "fifo:bytes={buffer:.0f}"
[[flow]]
kind = "call"
"""
    file = pathlib.Path("/tmp") / f"call-{seed}.toml"
    file.write_text(scenario)
    out = subprocess.run([binary, "sim", file, "--json"], capture_output=True, text=True, check=True)
    file.unlink()
    seen = json.loads(out.stdout)[0]["estimates"]
    return seen["call.throughput_bps"]["mean"] / min(rate, MOST), seen["link.queue_ms.p95"]["mean"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", help="directory that has aiortc")
    parser.add_argument("--binary", default=ROOT / "target/release/tailback")
    parser.add_argument("--seed", type=int, default=20261127)
    parser.add_argument("--count", type=int, default=20)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(INTRODUCTION.format(args=args))
    print("| kbit/s | RTT | buffer | ours: use | p95 of the wait | aiortc: use | p95 of the wait |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for i in range(args.count):
        rate = 300e3 * (2.5e6 / 300e3) ** rng.random()
        rtt = 0.005 * 40 ** rng.random()
        buffer_s = 0.2 * 5 ** rng.random()
        buffer = max(rate * buffer_s / 8, 6000)
        row = ours(args.binary, rate, rtt, buffer, args.seed + i) + theirs(args.site, rate, rtt, buffer, args.seed + i)
        rows.append(row)
        print(
            f"| {rate / 1e3:.0f} | {rtt * 1e3:.0f} ms | {buffer_s * 1e3:.0f} ms "
            f"| {row[0]:.2f} | {row[1]:.0f} ms | {row[2]:.2f} | {row[3]:.0f} ms |"
        )
    mid = [statistics.median(column) for column in zip(*rows)]
    print(f"| median | | | {mid[0]:.2f} | {mid[1]:.0f} ms | {mid[2]:.2f} | {mid[3]:.0f} ms |")


INTRODUCTION = """\
# Simulated video calls beside another program

`bench/call.py` draws links, and runs our source `call` and the estimator of aiortc (Python, the receiver's side of an earlier
Chrome) on each of them, with the same frames and the same pacer. Our simulator knows nothing of theirs: a few lines of
Python are the link. A call is alone on its link; the last 60 of 90 s count. Seed {args.seed}, {args.count} links.

The two differ where Chrome has changed since: ours takes the trend of delays by a regression, aiortc by a Kalman filter
(draft-ietf-rmcat-gcc-02); near the limit aiortc grows twice as fast; its packets carry times of 1 ms. Beside a download in a deep queue both fall to a
small share of the link, 1 to 25 %, from which little can be said: it differs as much from link to link as between the two.
"""

main()
