"""Stochastic fair BLUE as figure 5 of Feng, Kandlur, Saha and Shin (2001) prints it; bins by level, in exact fractions. The
hash is the one that the discipline has, or no two tables could agree."""

from fractions import Fraction as F

from fq_pie import flows_of
from qdisc_table import CE, ECT0, MS, NOT_ECT, main, run
from streams import MASK, Stream


def bin_of(flow, perturbation, bins):
    x = flow ^ perturbation
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return ((x ^ (x >> 31)) * bins) >> 64


class Sfb:
    def __init__(self, levels=2, bins=23, bin_size=13, d1=F(5, 10**4), d2=F(5, 10**5), penalty=100 * MS, ecn=False,
                 limit=1000):
        self.bins, self.bin_size, self.d1, self.d2 = bins, bin_size, d1, d2
        self.penalty, self.ecn, self.limit = penalty, ecn, limit
        perturbation = Stream("link/golden/sfb/perturbation")
        self.hashes = [perturbation.next_u64() for _ in range(8)][:levels]
        self.random = Stream("link/golden/sfb/early_drop")
        self.p_m = [[F(0)] * bins for _ in range(levels)]
        self.log, self.packets, self.penalty_over = [], [], 0

    def mine(self, flow):
        return [(i, bin_of(flow, h, self.bins)) for i, h in enumerate(self.hashes)]

    def qlen(self, level, b):
        return sum(1 for p in self.packets if bin_of(p.flow, self.hashes[level], self.bins) == b)

    def enqueue(self, now, packet):
        for i, b in self.mine(packet.flow):
            waiting = self.qlen(i, b)
            if waiting >= self.bin_size:
                self.p_m[i][b] = min(F(1), self.p_m[i][b] + self.d1)
            elif waiting == 0:
                self.p_m[i][b] = max(F(0), self.p_m[i][b] - self.d2)
        p_min = min(self.p_m[i][b] for i, b in self.mine(packet.flow))
        u = self.random.uniform()
        mark = False
        if p_min == 1:
            if now < self.penalty_over:
                self.log.append(f"drop {packet.id} early_drop")
                return
            self.penalty_over = now + self.penalty
        elif u < p_min:
            mark = self.ecn and packet.ecn != NOT_ECT
            if not mark:
                self.log.append(f"drop {packet.id} early_drop")
                return
        if len(self.packets) == self.limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        if mark:
            packet.ecn = CE
            self.log.append(f"mark {packet.id}")
        packet.enqueued = now
        self.packets.append(packet)

    def dequeue(self, now):
        return self.packets.pop(0) if self.packets else None


def greedy_and_sparse():
    """1.2 Mbit/s; steps so large that the greedy ones' bins come to certainty, and few bins, so that some are shared."""
    queue = Sfb(bins=7, bin_size=6, d1=F(1, 64), d2=F(1, 128), penalty=30 * MS)
    spec = "sfb:bins=7,bin_size=6,increment=0.015625,decrement=0.0078125,penalty=30 ms"
    return spec, run(queue, flows_of(1), 1_000_000, 9_000 * MS)


def three_levels_with_ecn():
    """Half can be marked; little room."""
    queue = Sfb(levels=3, bins=16, bin_size=10, d1=F(1, 256), d2=F(1, 512), ecn=True, limit=25)
    spec = "sfb:levels=3,bins=16,bin_size=10,increment=0.00390625,decrement=0.001953125,ecn=true,limit=25"
    return spec, run(queue, flows_of(2, (NOT_ECT, ECT0)), 1_100_000, 9_000 * MS)


if __name__ == "__main__":
    main("sfb.py", {f.__name__: f for f in (greedy_and_sparse, three_levels_with_ecn)})
