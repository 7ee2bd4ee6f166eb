"""The PI controller of Hollot, Misra, Towsley and Gong (2001), section IV, with a real timer and exact fractions, in
the form of the thesis's equation 16: a step on the distance from the reference and one on the change."""

from fractions import Fraction as F

from pie import load, rounded
from qdisc_table import CE, ECT0, MS, NOT_ECT, main, run
from streams import Stream


class Pi:
    def __init__(self, a=F(1822, 10**8), b=F(1816, 10**8), reference=50, tupdate=6_250_000, ecn=False, limit=800):
        self.alpha, self.beta = a - b, b
        self.reference, self.tupdate, self.ecn, self.limit = reference, tupdate, ecn, limit
        self.log, self.packets = [], []
        self.p, self.q_old, self.next_update = F(0), None, tupdate
        self.random = Stream("link/golden/pi/early_drop")

    def timer(self, now):
        while self.next_update <= now:
            q = len(self.packets)
            old = q if self.q_old is None else self.q_old
            self.p += self.alpha * (q - self.reference) + self.beta * (q - old)
            self.p = rounded(max(F(0), min(F(1), self.p)))
            self.q_old = q
            self.next_update += self.tupdate

    def enqueue(self, now, packet):
        self.timer(now)
        if len(self.packets) == self.limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        if self.random.uniform() < self.p:
            if self.ecn and packet.ecn != NOT_ECT:
                packet.ecn = CE
                self.log.append(f"mark {packet.id}")
            else:
                self.log.append(f"drop {packet.id} early_drop")
                return
        packet.enqueued = now
        self.packets.append(packet)

    def dequeue(self, now):
        self.timer(now)
        return self.packets.pop(0) if self.packets else None


SPANS = [(0, 4000, 5200), (4000, 4800, 20000), (4800, 6300, 3000), (9000, 10500, 6000)]


def strong():
    """Gains a hundred times the default's, so that a few seconds suffice; load above, below and far above the rate."""
    queue = Pi(a=F(1822, 10**6), b=F(1816, 10**6), reference=20)
    return "pi:a=0.001822,b=0.001816,reference=20", run(queue, load(2001, SPANS), 1_200_000, 14_000 * MS)


def ecn_and_little_room():
    """Two thirds can be marked; the queue is full at times."""
    queue = Pi(a=F(5, 1000), b=F(4, 1000), reference=10, tupdate=10 * MS, ecn=True, limit=30)
    spec = "pi:a=0.005,b=0.004,reference=10,tupdate=10 ms,ecn=true,limit=30"
    return spec, run(queue, load(7, SPANS, (NOT_ECT, ECT0, CE)), 1_200_000, 14_000 * MS)


if __name__ == "__main__":
    main("pi.py", {f.__name__: f for f in (strong, ecn_and_little_room)})
