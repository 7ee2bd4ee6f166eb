"""BLUE as figure 6 of Feng, Shin, Kandlur and Saha (2002) prints it; probabilities in exact fractions."""

from fractions import Fraction as F

from pie import load
from qdisc_table import CE, ECT0, MS, NOT_ECT, main, run
from streams import Stream


class Blue:
    def __init__(self, d1=F(2, 100), d2=F(2, 1000), freeze_time=100 * MS, length=None, ecn=False, limit=100):
        self.d1, self.d2, self.freeze_time = d1, d2, freeze_time
        self.length, self.ecn, self.limit = length, ecn, limit
        self.log, self.packets = [], []
        self.p_m, self.last_update = F(0), -(10**18)
        self.random = Stream("link/golden/blue/early_drop")

    def change(self, now, by):
        if now - self.last_update > self.freeze_time:
            self.p_m = max(F(0), min(F(1), self.p_m + by))
            self.last_update = now

    def enqueue(self, now, packet):
        full = len(self.packets) + 1 > self.limit
        if full or (self.length is not None and len(self.packets) > self.length):
            self.change(now, self.d1)
        if full:
            self.log.append(f"drop {packet.id} overlimit")
            return
        if self.random.uniform() < self.p_m:
            if self.ecn and packet.ecn != NOT_ECT:
                packet.ecn = CE
                self.log.append(f"mark {packet.id}")
            else:
                self.log.append(f"drop {packet.id} early_drop")
                return
        packet.enqueued = now
        self.packets.append(packet)

    def dequeue(self, now):
        if not self.packets:
            self.change(now, -self.d2)
            return None
        return self.packets.pop(0)


SPANS = [(0, 3000, 4500), (3000, 6000, 12000), (6000, 8000, 5000)]


def overload_and_idle():
    """Overflows push the probability up, two seconds of half the load let it sink."""
    queue = Blue(limit=25)
    return "blue:limit=25", run(queue, load(2002, SPANS), 1_200_000, 12_000 * MS)


def by_length_with_ecn():
    """A length counts as loss does; large steps; two thirds can be marked."""
    queue = Blue(d1=F(1, 10), d2=F(5, 100), freeze_time=30 * MS, length=8, ecn=True, limit=20)
    spec = "blue:increment=0.1,decrement=0.05,freeze=30 ms,length=8,ecn=true,limit=20"
    return spec, run(queue, load(3, SPANS, (NOT_ECT, ECT0, CE)), 1_200_000, 12_000 * MS)


if __name__ == "__main__":
    main("blue.py", {f.__name__: f for f in (overload_and_idle, by_length_with_ecn)})
