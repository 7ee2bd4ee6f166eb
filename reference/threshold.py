"""A step at a length (RFC 8257 section 3.1), told by subtraction: what waits is what was let in less what was served, and
an arrival is marked where more than a threshold waits before it."""

from pie import load
from qdisc_table import CE, ECT0, ECT1, MS, NOT_ECT, main, run


class Threshold:
    def __init__(self, mark=65, limit=1000):
        self.mark, self.limit = mark, limit
        self.log, self.let_in, self.served = [], [], 0

    def enqueue(self, now, packet):
        before = self.let_in[self.served:]
        if len(before + [packet]) > self.limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        if len(before) > self.mark and packet.ecn != NOT_ECT:
            packet.ecn = CE
            self.log.append(f"mark {packet.id}")
        packet.enqueued = now
        self.let_in.append(packet)

    def dequeue(self, now):
        if self.served == len(self.let_in):
            return None
        self.served += 1
        return self.let_in[self.served - 1]


SPANS = [(0, 300, 900), (300, 600, 1500), (600, 800, 500)]


def steps():
    """Below, above and at the threshold; a third cannot be marked."""
    return "threshold:mark=20,limit=60", run(Threshold(20, 60), load(8257, SPANS, (NOT_ECT, ECT0, ECT1)), 8_000_000, 2_000 * MS)


def every_packet():
    """A threshold of zero marks whatever has to wait behind another."""
    return "threshold:mark=0,limit=30", run(Threshold(0, 30), load(2010, SPANS, (NOT_ECT, ECT0, CE)), 8_000_000, 2_000 * MS)


if __name__ == "__main__":
    main("threshold.py", {f.__name__: f for f in (steps, every_packet)})
