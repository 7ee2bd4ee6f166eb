"""What the oracles of congestion controllers share: a made-up history of ACKs, losses, time-outs and
silences, and the text table of all that happened with the window after each. Slow and plain on purpose;
nothing here is shared with the Rust code. Times are whole nanoseconds, data whole bytes."""

import sys
from fractions import Fraction
from pathlib import Path

from qdisc_table import MS, Chance

MSS = 1000


def whole(x):
    """To the nearest byte, halves up."""
    return int((Fraction(x) + Fraction(1, 2)) // 1)


def history(controller, seed, events, capacity, acks, chances):
    """Runs `controller` through `events` events; `chances` are out of 10 000 for each event that is not
    an ACK. `capacity` segments is where the path loses by itself; a round trip brings about `acks` ACKs.
    Returns the lines of the table."""
    chance, lines, now = Chance(seed), [], 0
    recovering, quiet, timed_out = 0, 0, False
    for _ in range(events):
        flight = whole(controller.cwnd)
        rtt = 80 * MS + chance.below(40) * MS
        draw = chance.below(10_000)
        acked = MSS * max(1, flight // MSS // acks + chance.below(2))
        now += max(1, rtt * acked // max(flight, MSS))
        loss = flight > capacity * MSS and recovering == 0 and quiet == 0
        edge = 0
        if loss or (draw < (edge := edge + chances["loss"]) and recovering == 0):
            extra = MSS * chance.below(3)  # limited transmit
            event = f"{now} loss {flight + extra}"
            controller.loss(now, flight + extra)
            recovering = flight // MSS + 1
        elif draw < (edge := edge + chances["ecn"]) and recovering == 0:
            event = f"{now} ecn {flight}"
            controller.ecn(now, flight)
        elif draw < (edge := edge + chances["rto"]):
            now += 300 * MS
            event = f"{now} rto {flight} {int(timed_out)}"
            controller.rto(now, flight, timed_out)
            timed_out, recovering = True, 0
        elif draw < (edge := edge + chances["spurious"]):
            event = f"{now} spurious"
            controller.spurious(now)
            recovering = 0
        elif draw < (edge := edge + chances["idle"]):
            lasted = 50 * MS + chance.below(3000) * MS
            restart = int(lasted > 1000 * MS)
            now += lasted
            event = f"{now} idle {lasted} {restart}"
            controller.idle(now, lasted, restart)
        else:
            if draw < edge + chances["quiet"]:
                quiet = 20
            used = flight // 3 if quiet else flight
            limited = int(quiet == 0)
            quiet = max(0, quiet - 1)
            event = f"{now} ack {acked} {used} {limited} {int(recovering > 0)} {rtt}"
            controller.ack(now, acked, used, limited, recovering > 0, rtt)
            recovering = max(0, recovering - acked // MSS)
            timed_out = False
        ssthresh = "-" if controller.ssthresh is None else whole(controller.ssthresh)
        lines.append(f"{event} = {whole(controller.cwnd)} {ssthresh}")
    return lines


NONE = {"loss": 0, "ecn": 0, "rto": 0, "spurious": 0, "idle": 0, "quiet": 0}
# Name: (seed, events, capacity in segments, ACKs a round trip, chances out of 10 000).
HISTORIES = {
    "sawtooth": (1, 600, 16, 16, NONE),
    "long_path": (2, 700, 300, 8, NONE),
    "random_loss": (3, 700, 10_000, 10, NONE | {"loss": 150, "ecn": 50}),
    "everything": (4, 900, 200, 10, {"loss": 60, "ecn": 30, "rto": 50, "spurious": 60, "idle": 40, "quiet": 80}),
}


def table(script, spec, make, name):
    seed, events, capacity, acks, chances = HISTORIES[name]
    controller = make(MSS, 10 * MSS)
    head = [
        f"# written by reference/{script} {name}",
        f"# controller {spec}",
        f"# mss {MSS}, initial window {10 * MSS}",
        "# time_ns ack acked inflight_before cwnd_limited in_recovery srtt_ns | loss flight | ecn flight |",
        "# rto flight repeated | spurious | idle lasted_ns restart = cwnd_bytes ssthresh_bytes",
    ]
    return "\n".join(head + history(controller, seed, events, capacity, acks, chances)) + "\n"


def main(script, spec, make):
    """`NAME` prints one table, `--write DIRECTORY` writes all."""
    if len(sys.argv) == 3 and sys.argv[1] == "--write":
        for name in HISTORIES:
            Path(sys.argv[2], name + ".txt").write_text(table(script, spec, make, name))
    elif len(sys.argv) == 2 and sys.argv[1] in HISTORIES:
        sys.stdout.write(table(script, spec, make, sys.argv[1]))
    else:
        sys.exit(f"usage: {script} NAME | --write DIRECTORY; names: {', '.join(HISTORIES)}")
