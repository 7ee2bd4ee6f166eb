"""RED as figure 2 of Floyd and Jacobson (1993) prints it, with the gentle region, ns-2's byte mode and `wait`, and
Adaptive RED (Floyd, Gummadi, Shenker, 2001, figure 1), whose timer is a real one here. Numbers have fifty digits."""

from decimal import Decimal as D, getcontext

from pie import load
from qdisc_table import CE, ECT0, MS, NOT_ECT, main, run
from streams import Stream

getcontext().prec = 50


class Red:
    def __init__(self, min_th=5, max_th=15, max_p=D("0.1"), w_q=D("0.002"), gentle=True, adaptive=False, wait=False,
                 queue_in_bytes=False, drop_in_bytes=False, mean=500, slot=400_000, ecn=False, nodrop=False, limit=1000, ns2=False):
        self.min_th, self.max_th, self.max_p, self.w_q = D(min_th), D(max_th), max_p, w_q
        self.gentle, self.adaptive, self.wait = gentle, adaptive, wait
        self.queue_in_bytes, self.drop_in_bytes, self.mean = queue_in_bytes, drop_in_bytes, mean
        self.slot, self.ecn, self.nodrop, self.limit, self.ns2 = slot, ecn, nodrop, limit, ns2
        self.log, self.packets = [], []
        self.avg, self.count, self.count_bytes, self.q_time = D(0), -1, 0, 0
        self.next_adapt = 500 * MS
        self.random = Stream("link/golden/red/early_drop")

    def adapt(self):
        middle = (self.min_th + self.max_th) / 2
        tenth = (self.max_th - self.min_th) / 10
        if self.avg > middle + tenth and self.max_p <= D("0.5"):
            self.max_p += min(D("0.01"), self.max_p / 4)
        elif self.avg < middle - tenth and self.max_p >= D("0.01"):
            self.max_p *= D("0.9")

    def enqueue(self, now, packet):
        while self.adaptive and self.next_adapt <= now:
            self.adapt()
            self.next_adapt += 500 * MS
        if self.packets:
            q = D(sum(p.len for p in self.packets)) / self.mean if self.queue_in_bytes else D(len(self.packets))
            self.avg = (1 - self.w_q) * self.avg + self.w_q * q
        else:
            slots = max(now - self.q_time, 0) // self.slot
            self.avg = (1 - self.w_q) ** (slots + 1 if self.ns2 else slots) * self.avg
            self.q_time = now
        decision = self.decide(packet)
        if decision == "drop" and self.ecn and self.nodrop:
            # red_enqueue of Linux: queue what cannot be marked.
            decision = "pass" if packet.ecn == NOT_ECT else "mark"
        if decision == "pass" and self.full(packet):
            if self.count >= 0:
                self.count = self.count_bytes = 0
            self.log.append(f"drop {packet.id} overlimit")
            return
        if decision == "drop" and self.ecn and packet.ecn != NOT_ECT and self.avg < self.max_th:
            decision = "mark"
        if decision == "drop":
            self.log.append(f"drop {packet.id} early_drop")
            return
        if decision == "mark":
            if self.full(packet):
                self.log.append(f"drop {packet.id} overlimit")
                return
            packet.ecn = CE
            self.log.append(f"mark {packet.id}")
        packet.enqueued = now
        self.packets.append(packet)

    def full(self, packet):
        backlog = sum(p.len for p in self.packets)
        if self.ns2:
            return backlog >= self.limit * self.mean
        if self.queue_in_bytes:
            return backlog + packet.len > self.limit * self.mean
        return len(self.packets) + 1 > self.limit

    def decide(self, packet):
        if self.ns2:
            return self.decide_as_ns2(packet)
        top = 2 * self.max_th if self.gentle else self.max_th
        if self.avg < self.min_th:
            self.count, self.count_bytes = -1, 0
            return "pass"
        self.count += 1
        if self.count > 0:
            self.count_bytes += packet.len
        if self.avg >= top:
            self.count = self.count_bytes = 0
            return "drop"
        if self.avg < self.max_th:
            p_b = self.max_p * (self.avg - self.min_th) / (self.max_th - self.min_th)
        else:
            p_b = self.max_p + (1 - self.max_p) * (self.avg - self.max_th) / self.max_th
        count = self.count_bytes // self.mean if self.drop_in_bytes else self.count
        if self.wait:
            p_a = D(0) if count * p_b < 1 else p_b / (2 - count * p_b) if count * p_b < 2 else D(1)
        else:
            p_a = p_b / (1 - count * p_b) if count * p_b < 1 else D(1)
        if self.drop_in_bytes:
            p_a = p_a * packet.len / self.mean
        if p_a > 0 and D(self.random.uniform()) < p_a:
            self.count = self.count_bytes = 0
            return "drop"
        return "pass"

    def decide_as_ns2(self, packet):
        """As section 7.3 of the ns manual and the simulator's traces have it, with bytes_ and wait_."""
        if self.avg < self.min_th or not self.packets:
            self.count, self.count_bytes = -1, 0
            return "pass"
        if self.count < 0:
            self.count, self.count_bytes = 1, packet.len
            return "pass"
        self.count += 1
        self.count_bytes += packet.len
        p_b = self.max_p * (self.avg - self.min_th) / (self.max_th - self.min_th)
        if self.avg >= self.max_th:
            p_b = min(self.max_p + (1 - self.max_p) * (self.avg - self.max_th) / self.max_th, D(1))
        passed = self.count_bytes // self.mean * p_b
        if passed < 1:
            p_a = D(0)
        elif passed < 2 and p_b / (2 - passed) < 1:
            p_a = p_b / (2 - passed) * packet.len / self.mean
        else:
            p_a = D(1)
        if p_a > 0 and D(self.random.uniform()) < p_a:
            self.count = self.count_bytes = 0
            return "drop"
        return "pass"

    def dequeue(self, now):
        if not self.packets:
            return None
        packet = self.packets.pop(0)
        self.q_time = now
        if self.ns2:
            self.q_time += self.slot * packet.len // self.mean
        return packet


# The mean packet is 1023 bytes, so 1.2 Mbit/s are 6.8 ms a packet.
SPANS = [(0, 3500, 6000), (3500, 4000, 20000), (4000, 5500, 2500), (9000, 11000, 6400)]


def gentle():
    """Load about the rate, then twice as much, a silence, and once more; a quick average shows all regions."""
    red = Red(w_q=D("0.02"))
    return "red:weight=0.02", run(red, load(1993, SPANS), 1_200_000, 12_000 * MS)


def strict_wait_ecn():
    """Not gentle: a wall at the upper threshold; spaced drops; two thirds can be marked."""
    red = Red(w_q=D("0.01"), gentle=False, wait=True, ecn=True, max_p=D("0.25"), limit=25)
    spec = "red:max_p=0.25,weight=0.01,gentle=false,wait=true,ecn=true,limit=25"
    return spec, run(red, load(3168, SPANS, (NOT_ECT, ECT0, CE)), 1_200_000, 12_000 * MS)


def marks_alone():
    """Nothing is dropped before the queue is full: what cannot be marked passes."""
    red = Red(w_q=D("0.01"), gentle=False, wait=True, ecn=True, nodrop=True, max_p=D("0.25"), limit=25)
    spec = "red:max_p=0.25,weight=0.01,gentle=false,wait=true,ecn=true,nodrop=true,limit=25"
    return spec, run(red, load(8257, SPANS, (NOT_ECT, ECT0, CE)), 1_200_000, 12_000 * MS)


def in_bytes():
    """Queue and drops in bytes, as ns-2 has them."""
    red = Red(w_q=D("0.02"), queue_in_bytes=True, drop_in_bytes=True, min_th=8, max_th=20)
    spec = "red:min=8,max=20,weight=0.02,queue_in_bytes=true,drop_in_bytes=true"
    return spec, run(red, load(500, SPANS), 1_200_000, 12_000 * MS)


def ns2():
    """ns-2's own, at a load that fills its queue."""
    red = Red(w_q=D("0.02"), ns2=True, queue_in_bytes=True, min_th=8, max_th=20, limit=40, slot=3_333_333)
    return "red:variant=ns2,min=8,max=20,weight=0.02,limit=40,slot=3333333ns", run(red, load(2035, SPANS), 1_200_000, 12_000 * MS)


def adaptive():
    """The probability at the upper threshold moves with the load, both ways."""
    red = Red(w_q=D("0.02"), adaptive=True)
    return "red:weight=0.02,adaptive=true", run(red, load(2001, SPANS), 1_200_000, 12_000 * MS)


if __name__ == "__main__":
    main("red.py", {f.__name__: f for f in (gentle, strict_wait_ecn, marks_alone, in_bytes, ns2, adaptive)})
