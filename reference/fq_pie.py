"""FQ-PIE: the turns of RFC 8290 sections 4.1 and 4.2, with a PIE of its own for each flow (RFC 8033,
as Linux has it). All timers run
together, for each flow at each period. Each flow number has a queue of its own here."""

from fractions import Fraction as F

import pie
from qdisc_table import CE, ECT0, MS, NOT_ECT, Chance, main, run
from streams import Stream


class FqPie:
    def __init__(self, limit=10240, quantum=1514, memory=32 << 20, **params):
        self.log, self.limit, self.quantum, self.memory, self.params = [], limit, quantum, memory, params
        self.random = Stream("link/golden/fq_pie/early_drop")
        self.pies, self.credits, self.new, self.old = {}, {}, [], []

    def controller(self, flow, now):
        if flow not in self.pies:
            self.pies[flow] = pie.Controller([], self.random, variant="linux", **self.params)
        for p in self.pies.values():
            p.run_timer(now)
        return self.pies[flow]

    def enqueue(self, now, packet):
        mine = self.controller(packet.flow, now)
        waiting = [p for c in self.pies.values() for p in c.queue]
        if len(waiting) + 1 > self.limit or sum(p.len for p in waiting) + packet.len > self.memory:
            mine.accu_prob = F(0)
            self.log.append(f"drop {packet.id} overlimit")
            return
        fate = mine.arrival(packet)
        if fate == "drop":
            self.log.append(f"drop {packet.id} early_drop")
            return
        if fate == "mark":
            packet.ecn = CE
            self.log.append(f"mark {packet.id}")
        packet.enqueued = now
        mine.queue.append(packet)
        if packet.flow not in self.new + self.old:
            self.new.append(packet.flow)
            self.credits[packet.flow] = self.quantum

    def dequeue(self, now):
        while self.new or self.old:
            current = self.new if self.new else self.old
            flow = current[0]
            if self.credits[flow] <= 0:
                self.credits[flow] += self.quantum
                self.old.append(current.pop(0))
                continue
            mine = self.controller(flow, now)
            if not mine.queue:
                current.pop(0)
                if current is self.new:
                    self.old.append(flow)
                continue
            packet = mine.queue.pop(0)
            mine.departure(now, packet)
            self.credits[flow] -= packet.len
            return packet
        return None


def flows_of(seed, ecns=(NOT_ECT,)):
    """Two greedy flows, one of them only for a while, five that come and go, and a call."""
    chance, arrivals = Chance(seed), []
    for begin, end, flow, gap_us in ((0, 4000, 1, 6000), (800, 2500, 2, 5000), (0, 4000, 3, 20000)):
        t = begin * MS
        while t < end * MS:
            t += chance.below(2 * gap_us * 1000)
            which = flow if flow < 3 else 3 + chance.below(5)
            arrivals.append((t, which, 200 + chance.below(1301), ecns[chance.below(len(ecns))]))
    arrivals += [(t * MS + 5, 9, 200, NOT_ECT) for t in range(0, 4000, 20)]
    return sorted(arrivals)


def greedy_and_sparse():
    """1.6 Mbit/s: the greedy ones are held to their target, the call is not touched."""
    return "fq_pie:flows=65536", run(FqPie(), flows_of(1), 1_600_000, 9_000 * MS)


def ecn_and_little_room():
    """Half can be marked; 60 packets or 40 kB are all that fits."""
    queue = FqPie(limit=60, memory=40_000, quantum=300, target=40 * MS, tupdate=10 * MS, ecn=True, mark_limit=F(3, 10))
    spec = "fq_pie:target=40 ms,tupdate=10 ms,quantum=300 B,flows=65536,ecn=true,mark_limit=0.3,limit=60,memory=40 kB"
    return spec, run(queue, flows_of(2, (NOT_ECT, ECT0)), 1_300_000, 9_000 * MS)


if __name__ == "__main__":
    main("fq_pie.py", {f.__name__: f for f in (greedy_and_sparse, ecn_and_little_room)})
