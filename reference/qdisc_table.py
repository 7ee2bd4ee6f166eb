"""What the oracles of queue disciplines share: scenarios of arrivals, a server that takes packets at a
fixed rate, and the text table of all that happened. Slow and plain on purpose; nothing here is shared
with the Rust code. Times are whole nanoseconds, lengths bytes of whole IP packets."""

import sys
from dataclasses import dataclass

MS = 1_000_000
NOT_ECT, ECT1, ECT0, CE = 0, 1, 2, 3


@dataclass
class Packet:
    id: int
    flow: int
    len: int
    ecn: int
    dscp: int = 0
    enqueued: int = 0


class Chance:
    """Numerical Recipes' 32-bit congruential generator: arrivals need variety, not quality."""

    def __init__(self, seed):
        self.x = seed

    def below(self, n):
        self.x = (self.x * 1664525 + 1013904223) % 2**32
        return self.x * n >> 32


def run(discipline, arrivals, rate_bps, until):
    """Serves `arrivals` (sorted (time, flow, length, ecn), or five with the DSCP) at a rate; returns the lines
    of the table. At equal times the departure comes before the arrival."""
    lines = []
    arrivals = list(arrivals)
    free_at = None  # when the server asks again; None while it waits for an arrival
    next_id = 0

    def ask(now):
        lines.append(f"{now} dequeue")
        before = len(discipline.log)
        packet = discipline.dequeue(now)
        lines.extend(f"{now} {event}" for event in discipline.log[before:])
        if packet is None:
            lines.append(f"{now} empty")
            return discipline.next_wakeup(now) if hasattr(discipline, "next_wakeup") else None
        lines.append(f"{now} deliver {packet.id} {now - packet.enqueued}")
        return now - (-packet.len * 8 * 10**9 // rate_bps)

    while arrivals or free_at is not None:
        if free_at is not None and (not arrivals or free_at <= arrivals[0][0]):
            if free_at > until:
                break
            free_at = ask(free_at)
            continue
        now, flow, length, ecn, *dscp = arrivals.pop(0)
        if now > until:
            break
        packet = Packet(next_id, flow, length, ecn, *dscp)
        next_id += 1
        lines.append(" ".join(map(str, [now, "enqueue", packet.id, flow, length, ecn, *dscp])))
        before = len(discipline.log)
        discipline.enqueue(now, packet)
        lines.extend(f"{now} {event}" for event in discipline.log[before:])
        if free_at is None:
            free_at = ask(now)
    return lines


def main(script, scenarios):
    """`script NAME` prints one table, `script --list` the names, `script --write DIR` writes all."""

    def table(name):
        spec, lines = scenarios[name]()
        head = [
            f"# made by reference/{script} {name}; do not edit",
            "# t_ns enqueue id flow len ecn [dscp] | t_ns dequeue | t_ns drop id why | t_ns mark id | t_ns deliver id sojourn_ns | t_ns empty",
            f"# qdisc {spec}",
        ]
        return "\n".join(head + lines) + "\n"

    match sys.argv[1:]:
        case ["--list"]:
            print("\n".join(scenarios))
        case ["--write", directory]:
            for name in scenarios:
                with open(f"{directory}/{name}.txt", "w") as out:
                    out.write(table(name))
        case [name] if name in scenarios:
            sys.stdout.write(table(name))
        case _:
            sys.exit(f"usage: {script} --list | --write DIR | " + " | ".join(scenarios))
