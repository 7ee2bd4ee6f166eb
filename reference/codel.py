"""CoDel as RFC 8289, "Controlled Delay Active Queue Management", section 5 prints it: a loop inside
dequeue, helpers that return a packet with ok_to_drop. ECN as Linux has it: where a packet would be
dropped and can be marked, it is marked and sent on."""

from decimal import Decimal, getcontext

from qdisc_table import CE, ECT0, ECT1, MS, NOT_ECT, Chance, main, run

getcontext().prec = 60


def control_law(t, interval, count):
    """Section 5.6, to the whole nanosecond below, from a square root of sixty digits."""
    return t + int(Decimal(interval) / Decimal(count).sqrt())


class Queue:
    """One queue under CoDel; `log` receives what became of packets that did not simply pass."""

    def __init__(self, log, target=5 * MS, interval=100 * MS, limit=1000, ecn=False, mtu=1500, ce_threshold=None, ce_l4s=False):
        self.ce_threshold, self.ce_l4s = ce_threshold, ce_l4s
        self.log, self.target, self.interval, self.limit, self.ecn, self.mtu = log, target, interval, limit, ecn, mtu
        self.packets = []
        self.first_above_time = 0
        self.drop_next = 0
        self.count = 0
        self.lastcount = 0
        self.dropping = False

    def bytes(self):
        return sum(p.len for p in self.packets)

    def enqueue(self, now, packet):
        if len(self.packets) >= self.limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        packet.enqueued = now
        self.packets.append(packet)

    def dodequeue(self, now):
        if not self.packets:
            self.first_above_time = 0
            return None, False
        packet = self.packets.pop(0)
        ok_to_drop = False
        if now - packet.enqueued < self.target or self.bytes() <= self.mtu:
            self.first_above_time = 0
        elif self.first_above_time == 0:
            self.first_above_time = now + self.interval
        elif now >= self.first_above_time:
            ok_to_drop = True
        return packet, ok_to_drop

    def mark(self, packet):
        """Marks the packet if it may be marked; says whether it did."""
        if not self.ecn or packet.ecn == NOT_ECT:
            return False
        packet.ecn = CE
        self.log.append(f"mark {packet.id}")
        return True

    def drop(self, packet):
        self.log.append(f"drop {packet.id} target_exceeded")

    def dequeue(self, now):
        """Linux, codel_dequeue: whatever the law did, a packet that leaves after more than ce_threshold is marked
        (INET_ECN_set_ce), or with the selector 01 of the mask 11 only one of ECT(1)."""
        packet = self.law(now)
        if packet is not None and self.ce_threshold is not None and now - packet.enqueued > self.ce_threshold:
            if packet.ecn in ((ECT1,) if self.ce_l4s else (ECT0, ECT1)):
                packet.ecn = CE
                self.log.append(f"mark {packet.id}")
        return packet

    def law(self, now):
        packet, ok_to_drop = self.dodequeue(now)
        if self.dropping:
            if not ok_to_drop:
                self.dropping = False
            while self.dropping and now >= self.drop_next:
                self.count += 1
                if self.mark(packet):
                    self.drop_next = control_law(self.drop_next, self.interval, self.count)
                    return packet
                self.drop(packet)
                packet, ok_to_drop = self.dodequeue(now)
                if not ok_to_drop:
                    self.dropping = False
                else:
                    self.drop_next = control_law(self.drop_next, self.interval, self.count)
        elif ok_to_drop:
            if not self.mark(packet):
                self.drop(packet)
                packet, _ = self.dodequeue(now)
            self.dropping = True
            delta = self.count - self.lastcount
            self.count = 1
            if delta > 1 and now - self.drop_next < 16 * self.interval:
                self.count = delta
            self.drop_next = control_law(now, self.interval, self.count)
            self.lastcount = self.count
        return packet


class Codel:
    def __init__(self, **params):
        self.log = []
        self.queue = Queue(self.log, **params)

    def enqueue(self, now, packet):
        self.queue.enqueue(now, packet)

    def dequeue(self, now):
        return self.queue.dequeue(now)


def poisson_like(chance, spans, ecn_of):
    """Arrivals in spans of (from_ms, to_ms, mean gap in us), gaps uniform from 0 to twice the mean."""
    for begin, end, gap_us in spans:
        t = begin * MS
        while True:
            t += chance.below(2 * gap_us * 1000)
            if t >= end * MS:
                break
            length = (40, 576, 1500, 1500, 1500)[chance.below(5)]
            yield t, 1, length, ecn_of(chance)


def step_load():
    """2 Mbit/s; a load of 1.5 times that for 2 s, a pause, then the same again: the second drop phase
    starts at the rate at which the first ended."""
    arrivals = [(t * MS, 1, 1500, NOT_ECT) for t in range(0, 2000, 4)]
    arrivals += [(t * MS, 1, 1500, NOT_ECT) for t in range(2900, 4200, 4)]
    return "codel", run(Codel(), arrivals, 2_000_000, 6_000 * MS)


def random_load():
    """Sizes and gaps vary, load swings about the rate, so that the law enters and leaves the drop state
    often; a small limit refuses some."""
    spans = [(0, 900, 3500), (900, 1300, 12000), (1300, 2600, 3000), (2600, 3000, 8000), (3000, 4500, 3800)]
    arrivals = poisson_like(Chance(8289), spans, lambda c: NOT_ECT)
    queue = Codel(target=4 * MS, interval=60 * MS, limit=60)
    return "codel:target=4 ms,interval=60 ms,limit=60", run(queue, arrivals, 2_000_000, 10_000 * MS)


def mixed_ecn():
    """Half of the packets are ECN-capable and are marked where the others are dropped; some arrive
    marked already."""
    spans = [(0, 1500, 3400), (1500, 1700, 20000), (1700, 3500, 3600)]
    arrivals = poisson_like(Chance(3168), spans, lambda c: (NOT_ECT, NOT_ECT, ECT0, ECT0, CE)[c.below(5)])
    return "codel:ecn=true", run(Codel(ecn=True), arrivals, 2_000_000, 10_000 * MS)


def coarse_service():
    """A server so slow that several drops are due at once: the loop of section 5.5 runs more than once,
    and empties the queue at times."""
    spans = [(0, 3000, 20000), (3400, 6000, 15000)]
    arrivals = poisson_like(Chance(55), spans, lambda c: NOT_ECT)
    queue = Codel(target=1 * MS, interval=10 * MS, limit=100, mtu=0)
    return "codel:target=1 ms,interval=10 ms,limit=100,mtu=0", run(queue, arrivals, 300_000, 10_000 * MS)


def ce_threshold():
    """Packets of all codepoints; the law drops and marks beside the threshold, which is above and below the wait."""
    spans = [(0, 1500, 3400), (1500, 1700, 20000), (1700, 3500, 3600)]
    arrivals = poisson_like(Chance(1024), spans, lambda c: (NOT_ECT, ECT0, ECT1, CE)[c.below(4)])
    queue = Codel(ecn=True, ce_threshold=12 * MS)
    return "codel:ecn=true,ce_threshold=12 ms", run(queue, arrivals, 2_000_000, 10_000 * MS)


if __name__ == "__main__":
    main("codel.py", {f.__name__: f for f in (step_load, random_load, mixed_ecn, coarse_service, ce_threshold)})
