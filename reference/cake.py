"""CAKE's core: COBALT (Palmei et al., 2019; Hoeiland-Joergensen, Taeht and Morton, 2018) for each flow, and the turns of
RFC 8290. Each flow number has a queue of its own here, as a set-associative hash gives it while flows are few."""

from decimal import Decimal, getcontext
from fractions import Fraction as F

from fq_pie import flows_of
from qdisc_table import CE, ECT0, MS, NOT_ECT, main, run
from streams import Stream

getcontext().prec = 60


class Flow:
    def __init__(self):
        self.packets, self.credit = [], 0
        self.count, self.dropping, self.drop_next = 0, False, 0
        self.p_drop, self.blue_timer = F(0), 0


class Cake:
    def __init__(self, target=5 * MS, interval=100 * MS, p_inc=F(1, 256), p_dec=F(1, 4096), quantum=1514, ecn=True,
                 memory=4_000_000):
        self.target, self.interval, self.p_inc, self.p_dec = target, interval, p_inc, p_dec
        self.quantum, self.ecn, self.memory = quantum, ecn, memory
        self.log, self.flows, self.new, self.old = [], {}, [], []
        self.random = Stream("link/golden/cake/blue")

    def control(self, t, count):
        return t + int(Decimal(self.interval) / Decimal(max(count, 1)).sqrt())

    def enqueue(self, now, packet):
        flow = self.flows.setdefault(packet.flow, Flow())
        packet.enqueued = now
        flow.packets.append(packet)
        if packet.flow not in self.new + self.old:
            self.new.append(packet.flow)
            flow.credit = self.quantum
        while True:
            size = {n: sum(p.len for p in f.packets) for n, f in self.flows.items()}
            if sum(size.values()) <= self.memory:
                return
            fattest = [n for n in size if size[n] == max(size.values())]
            assert len(fattest) == 1, "the scenario must not depend on how a tie is broken"
            why = "overlimit" if fattest[0] == packet.flow else "flow_evicted"
            self.log.append(f"drop {self.flows[fattest[0]].packets.pop(0).id} {why}")
            self.queue_full(self.flows[fattest[0]], now)

    def queue_full(self, f, now):
        if now - f.blue_timer > self.target:
            f.p_drop, f.blue_timer = min(F(1), f.p_drop + self.p_inc), now
        f.dropping, f.drop_next = True, now
        if f.count == 0:
            f.count = 1

    def queue_empty(self, f, now):
        if f.p_drop > 0 and now - f.blue_timer > self.target:
            f.p_drop, f.blue_timer = max(F(0), f.p_drop - self.p_dec), now
        f.dropping = False
        if f.count and now >= f.drop_next:
            f.count -= 1
            f.drop_next = self.control(f.drop_next, f.count)

    def fate(self, f, now, packet):
        over_target = now - packet.enqueued > self.target
        next_due = f.count != 0 and f.drop_next <= now
        if over_target:
            if not f.dropping:
                f.dropping, f.drop_next = True, self.control(now, f.count)
            if f.count == 0:
                f.count = 1
        elif f.dropping:
            f.dropping = False
        fate = "pass"
        if next_due and f.dropping:
            fate = "mark" if self.ecn and packet.ecn != NOT_ECT else "drop"
            f.count += 1
            f.drop_next = self.control(f.drop_next, f.count)
        else:
            while next_due:
                f.count -= 1
                f.drop_next = self.control(f.drop_next, f.count)
                next_due = f.count != 0 and f.drop_next <= now
        if f.p_drop > 0 and self.random.uniform() < f.p_drop:
            fate = "drop"
        if f.count == 0:
            f.drop_next = now + self.interval
        elif f.drop_next < now and fate != "drop":
            f.drop_next = now
        return fate

    def dequeue(self, now):
        while self.new or self.old:
            current = self.new if self.new else self.old
            f = self.flows[current[0]]
            if f.credit <= 0:
                f.credit += self.quantum
                self.old.append(current.pop(0))
                continue
            if not f.packets:
                self.queue_empty(f, now)
                flow = current.pop(0)
                if current is self.new:
                    self.old.append(flow)
                continue
            packet = f.packets.pop(0)
            fate = self.fate(f, now, packet)
            if fate == "drop" and f.packets:
                self.log.append(f"drop {packet.id} target_exceeded")
                continue
            if fate == "mark":
                packet.ecn = CE
                self.log.append(f"mark {packet.id}")
            f.credit -= packet.len
            return packet
        return None


def greedy_and_sparse():
    """1.6 Mbit/s: greedy ones, half of their packets ECN-capable, beside a call."""
    return "cake:flows=65536", run(Cake(), flows_of(1, (NOT_ECT, ECT0)), 1_600_000, 9_000 * MS)


def little_room():
    """30 kB are all that fits: BLUE comes in, with large steps, and goes when flows run empty."""
    queue = Cake(target=8 * MS, interval=60 * MS, p_inc=F(1, 8), p_dec=F(1, 16), quantum=300, memory=30_000)
    spec = "cake:target=8 ms,interval=60 ms,increment=0.125,decrement=0.0625,quantum=300 B,flows=65536,memory=30 kB"
    return spec, run(queue, flows_of(3), 1_100_000, 9_000 * MS)


if __name__ == "__main__":
    main("cake.py", {f.__name__: f for f in (greedy_and_sparse, little_room)})
