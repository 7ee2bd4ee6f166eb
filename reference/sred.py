"""Stabilized RED as sections III to V of Ott, Lakshman and Wong (1999) describe it: the list of zombies is a dictionary by
place, the frequency of hits is summed anew from all hits so far, in exact fractions of the weights' powers."""

from fractions import Fraction as F

from fq_pie import flows_of
from qdisc_table import CE, ECT0, MS, NOT_ECT, main, run
from streams import Stream


class Sred:
    def __init__(self, m=1000, p=F(1, 4), max_p=F(15, 100), flows=256, full=True, ecn=False, limit=100):
        self.m, self.p, self.max_p, self.n = m, p, max_p, flows
        self.full, self.ecn, self.limit = full, ecn, limit
        self.zombies, self.hits = {}, []
        self.choice = Stream("link/golden/sred/zombie")
        self.random = Stream("link/golden/sred/early_drop")
        self.log, self.packets = [], []

    def hit(self, flow):
        if len(self.zombies) < self.m:
            self.zombies[len(self.zombies)] = flow
            return 0
        place = int(self.choice.uniform() * self.m)
        if self.zombies[place] == flow:
            return 1
        if self.choice.uniform() < self.p:
            self.zombies[place] = flow
        return 0

    def frequency(self):
        """P(t): each hit weighs a, less by (1 - a) for each packet since."""
        a = float(self.p) / self.m
        last = len(self.hits) - 1
        return sum(a * (1 - a) ** (last - t) for t, hit in enumerate(self.hits) if hit)

    def p_zap(self, q, hit):
        if 3 * q < self.limit:
            p_sred = self.max_p / 4 if 6 * q >= self.limit else 0
        else:
            p_sred = self.max_p
        pt = self.frequency()
        factor = 1 if pt == 0 else min(1, 1 / (self.n * pt) ** 2)
        zap = float(p_sred) * factor
        if self.full and hit:
            zap *= 1 + hit / pt
        return min(1, zap)

    def enqueue(self, now, packet):
        hit = self.hit(packet.flow)
        self.hits.append(hit)
        zap = self.p_zap(len(self.packets), hit)
        if len(self.packets) + 1 > self.limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        if self.random.uniform() < zap:
            if self.ecn and packet.ecn != NOT_ECT:
                packet.ecn = CE
                self.log.append(f"mark {packet.id}")
            else:
                self.log.append(f"drop {packet.id} early_drop")
                return
        packet.enqueued = now
        self.packets.append(packet)

    def dequeue(self, now):
        return self.packets.pop(0) if self.packets else None


def greedy_and_sparse():
    """1.2 Mbit/s; a short list, so that it is full soon, and few flows, so that their number counts."""
    queue = Sred(m=25, flows=6, limit=24)
    return "sred:zombies=25,flows=6,limit=24", run(queue, flows_of(1), 1_200_000, 9_000 * MS)


def plain_with_ecn():
    """Hits do not count twice; half can be marked; each miss replaces its zombie."""
    queue = Sred(m=10, p=F(1), max_p=F(1, 2), flows=3, full=False, ecn=True, limit=13)
    spec = "sred:zombies=10,replace=1,max_p=0.5,flows=3,full=false,ecn=true,limit=13"
    return spec, run(queue, flows_of(2, (NOT_ECT, ECT0)), 1_100_000, 9_000 * MS)


if __name__ == "__main__":
    main("sred.py", {f.__name__: f for f in (greedy_and_sparse, plain_with_ecn)})
