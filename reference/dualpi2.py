"""DualPI2 as appendix A of RFC 9332, "Dual-Queue Coupled Active Queue Management (AQM) for Low Latency, Low Loss, and
Scalable Throughput (L4S)", tells it, with the overload handling of A.2. The timer is a real one here; the scheduler is
a weighted round robin that remembers what each queue has sent since both began to wait."""

from pie import load
from qdisc_table import CE, ECT0, ECT1, MS, NOT_ECT, main, run
from streams import Stream


class DualPi2:
    def __init__(self, target=15 * MS, tupdate=16 * MS, alpha=0.16, beta=3.2, k=2.0, min_th=800_000, range_=400_000,
                 th_len=1, protection=16, random=False, limit=10_000, nqb=False):
        self.nqb = nqb
        self.target, self.tupdate, self.alpha, self.beta, self.k = target, tupdate, alpha, beta, k
        self.min_th, self.max_th, self.range, self.th_len = min_th, min_th + range_, range_, th_len
        self.protection, self.limit = protection, limit
        self.p_cmax, self.p_lmax = min(1 / k**2, 1.0), 1.0
        self.log, self.lq, self.cq = [], [], []
        self.random = Stream("link/golden/dualpi2/decide") if random else None
        self.p, self.prevq, self.next_update = 0.0, 0.0, tupdate
        self.count = {"l": 0.0, "c": 0.0}
        self.sent_l = self.sent_c = 0

    def timer(self, now):
        while self.next_update <= now:
            curq = max([(self.next_update - q[0].enqueued) / 1e9 for q in (self.lq, self.cq) if q], default=0.0)
            self.p = self.p + (self.alpha * (curq - self.target / 1e9) + self.beta * (curq - self.prevq))
            self.p = min(max(self.p, 0.0), 1.0)
            self.prevq = curq
            self.next_update += self.tupdate

    def enqueue(self, now, packet):
        self.timer(now)
        if len(self.lq) + len(self.cq) + 1 > self.limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        packet.enqueued = now
        scalable = packet.ecn % 2 == 1 or self.nqb and packet.dscp == 45
        (self.lq if scalable else self.cq).append(packet)

    def recur(self, q, likelihood):
        if self.random:
            return likelihood > 0 and self.random.uniform() < likelihood
        self.count[q] += likelihood
        if self.count[q] > 1:
            self.count[q] -= 1
            return True
        return False

    def laqm(self, qdelay):
        if qdelay >= self.max_th:
            return 1.0
        return ((qdelay - self.min_th) / 1e9) / (self.range / 1e9) if qdelay > self.min_th else 0.0

    def scheduler(self):
        if not self.cq:
            return "l"
        if not self.lq:
            return "c"
        # The classic queue's turn: with this packet it has had no more than its share.
        return "c" if (self.sent_c + self.cq[0].len) * (self.protection - 1) <= self.sent_l else "l"

    def mark(self, packet):
        packet.ecn = CE
        self.log.append(f"mark {packet.id}")

    def dequeue(self, now):
        self.timer(now)
        while self.lq or self.cq:
            p_cl, p_c = self.k * self.p, self.p**2
            if self.scheduler() == "l":
                alone = len(self.lq) <= self.th_len
                packet = self.lq.pop(0)
                if packet.ecn % 2 == 0:
                    # NQB packets of a classic sender: the classic probability, in the other queue.
                    if self.recur("c", p_c):
                        if packet.ecn == NOT_ECT or p_c >= self.p_cmax:
                            self.log.append(f"drop {packet.id} early_drop")
                            continue
                        self.mark(packet)
                elif p_cl < self.p_lmax:
                    native = 0.0 if alone else self.laqm(now - packet.enqueued)
                    if self.recur("l", max(native, p_cl)):
                        self.mark(packet)
                else:
                    if self.recur("l", p_c):
                        self.log.append(f"drop {packet.id} early_drop")
                        continue
                    self.mark(packet)
                self.sent_l += packet.len
            else:
                packet = self.cq.pop(0)
                if self.recur("c", p_c):
                    if packet.ecn == NOT_ECT or p_c >= self.p_cmax:
                        self.log.append(f"drop {packet.id} early_drop")
                        continue
                    self.mark(packet)
                self.sent_c += packet.len
            if not self.lq or not self.cq:
                self.sent_l = self.sent_c = 0
            return packet
        return None


def mixed():
    """1.2 Mbit/s; a sender of each kind, load about the rate, then far above it, so that marking is exhausted; a silence;
    a little load."""
    spans = [(0, 3000, 6400), (3000, 4200, 3000), (8000, 9500, 6900)]
    return "dualpi2", run(DualPi2(), load(9332, spans, (NOT_ECT, ECT0, ECT1, CE)), 1_200_000, 11_000 * MS)


def classic_alone():
    """No L4S packets at all: PI squared; then L4S packets alone."""
    arrivals = load(1, [(0, 2500, 6000)], (NOT_ECT, NOT_ECT, ECT0)) + load(2, [(2500, 5000, 6100)], (ECT1,))
    return "dualpi2", run(DualPi2(), arrivals, 1_200_000, 11_000 * MS)


def other_values():
    """A fast line with its own values and little room: the ramp is met between its ends."""
    spans = [(0, 150, 212), (150, 190, 120), (300, 350, 240)]
    queue = DualPi2(target=3 * MS, tupdate=4 * MS, alpha=0.3, beta=5.0, k=1.5, min_th=500_000, range_=1_500_000,
                    th_len=2, protection=4, limit=30)
    spec = "dualpi2:target=3 ms,tupdate=4 ms,alpha=0.3,beta=5,coupling=1.5,min_th=500 us,range=1.5 ms,min_len=2,protection=4,limit=30"
    return spec, run(queue, load(3, spans, (NOT_ECT, ECT0, ECT1, ECT1)), 40_000_000, 1_000 * MS)


def by_chance():
    """Each decision drawn, as Linux does it."""
    spans = [(0, 2500, 6400), (2500, 3200, 3000)]
    return "dualpi2:random=true", run(DualPi2(random=True), load(7, spans, (NOT_ECT, ECT0, ECT1, CE)), 1_200_000, 6_000 * MS)


def nqb():
    """A third of the packets have DSCP 45, of all codepoints."""
    arrivals = load(9956, [(0, 3000, 6400), (3000, 4200, 3000)], (NOT_ECT, ECT0, ECT1))
    marked = [a + (45,) if i % 3 == 0 else a for i, a in enumerate(arrivals)]
    return "dualpi2:nqb=true", run(DualPi2(nqb=True), marked, 1_200_000, 7_000 * MS)


if __name__ == "__main__":
    main("dualpi2.py", {f.__name__: f for f in (mixed, classic_alone, other_values, by_chance, nqb)})
