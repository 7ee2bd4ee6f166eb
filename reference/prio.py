"""Strict priority by DSCP: a short queue that always goes first, all else in another oracle's discipline."""

import codel
import pie
from qdisc_table import MS, NOT_ECT, Chance, main, run


class Prio:
    def __init__(self, rest, from_dscp=46, first_limit=50):
        self.rest, self.from_dscp, self.first_limit = rest, from_dscp, first_limit
        self.log = rest.log
        self.first = []

    def is_first(self, packet):
        return packet.dscp >= self.from_dscp

    def enqueue(self, now, packet):
        if not self.is_first(packet):
            return self.rest.enqueue(now, packet)
        if len(self.first) == self.first_limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        packet.enqueued = now
        self.first.append(packet)

    def dequeue(self, now):
        return self.first.pop(0) if self.first else self.rest.dequeue(now)


def call_beside_bulk(seed, bulk_us, until_ms=4000):
    """Voice of 200 bytes each 20 ms with a burst that is too long for its queue, beside bulk of full packets;
    some packets ask for something that is not the first class."""
    chance = Chance(seed)
    arrivals = [(t * MS + 3, 1, 200, NOT_ECT, 46) for t in range(0, until_ms, 20)]
    arrivals += [(2000 * MS + t * 1000, 2, 300, NOT_ECT, 48) for t in range(80)]
    t = 0
    while t < until_ms * MS:
        t += chance.below(2 * bulk_us * 1000)
        arrivals.append((t, 3, 1500, NOT_ECT, (0, 0, 10, 45)[chance.below(4)]))
    return sorted(arrivals)


def beside_pie():
    """2 Mbit/s: the call waits for one packet at most, the bulk is PIE's."""
    return "prio", run(Prio(pie.Pie()), call_beside_bulk(1, 5000), 2_000_000, 9_000 * MS)


def beside_codel():
    """Another discipline for the rest, another bound between the classes, less room."""
    queue = Prio(codel.Codel(limit=200), from_dscp=10, first_limit=20)
    spec = "prio:from_dscp=10,first_limit=20,rest=codel,limit=200"
    return spec, run(queue, call_beside_bulk(2, 5500), 2_000_000, 9_000 * MS)


if __name__ == "__main__":
    main("prio.py", {f.__name__: f for f in (beside_pie, beside_codel)})
