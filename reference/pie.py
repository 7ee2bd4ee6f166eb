"""PIE as RFC 8033, "Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to Address the
Bufferbloat Problem", sections 4 and 5 tell it, and as the paper of 2013 has it (Pan et al., IEEE HPSR 2013, in the
equations 16 to 21 of the thesis), and as Linux 6 has it (net/sched/sch_pie.c). The timer is a real one here: each update happens at its time, between the
events, and probabilities are exact fractions rounded to 10^-40."""

from fractions import Fraction as F

from qdisc_table import CE, ECT0, MS, NOT_ECT, Chance, main, run
from streams import Stream

GRAIN = 10**40


def rounded(x):
    """Keeps fractions short; far finer than any decision."""
    return F(round(x * GRAIN), GRAIN)


class Controller:
    """One PIE; the queue it looks at is handed in, a list of packets."""

    def __init__(self, queue, random, variant=8033, target=None, tupdate=None, burst=None, estimate=None,
                 threshold=None, derandomize=None, ecn=False, mark_limit=F(1, 10), alpha=F(1, 8), beta=F(5, 4)):
        paper, self.linux = variant == 2013, variant == "linux"
        pick = lambda given, rfc, old: given if given is not None else (old if paper else rfc)
        self.queue, self.random, self.paper, self.ecn, self.mark_limit = queue, random, paper, ecn, mark_limit
        self.target = pick(target, 15 * MS, 20 * MS)
        self.tupdate = pick(tupdate, 15 * MS, 30 * MS)
        self.max_burst = pick(burst, 150 * MS, 100 * MS)
        self.estimate = pick(estimate, "sojourn", "drain_rate")
        self.threshold = pick(threshold, 16384, 10_000)
        self.derandomize = pick(derandomize, True, False)
        self.alpha, self.beta = alpha, beta  # Hz
        self.drop_prob = F(0)
        self.qdelay_old = F(0)  # ns
        self.burst_allowance = self.max_burst
        self.last_left = None
        self.accu_prob = F(0)
        self.last_sojourn = 0
        self.in_measurement = False
        self.dq_count = self.start = 0
        self.dq_time = self.dq_rate = None  # ns for a threshold of bytes; bytes a ns
        self.next_update = self.tupdate

    def byte_length(self):
        return sum(p.len for p in self.queue)

    def run_timer(self, now):
        while self.next_update <= now:
            self.calculate_drop_prob()
            self.next_update += self.tupdate

    def current_qdelay(self):
        if self.estimate == "sojourn":
            return F(self.last_sojourn)
        if self.paper or self.linux:
            return F(0) if self.dq_rate is None else self.byte_length() / self.dq_rate
        return F(0) if self.dq_time is None else self.byte_length() * self.dq_time / self.threshold

    def calculate_drop_prob(self):
        now_delay = self.current_qdelay()
        p = (self.alpha * (now_delay - self.target) + self.beta * (now_delay - self.qdelay_old)) / 10**9
        if self.paper:
            scale = 8 if self.drop_prob < F(1, 100) else 2 if self.drop_prob < F(1, 10) else 1
            self.drop_prob += p / scale
            if self.estimate == "sojourn":  # then nothing else runs the allowance down
                self.burst_allowance = max(0, self.burst_allowance - self.tupdate)
        else:
            for bound, scale in ((6, 2048), (5, 512), (4, 128), (3, 32), (2, 8), (1, 2)):
                if self.drop_prob < F(1, 10**bound):
                    p = p / scale
                    break
            if self.drop_prob >= F(1, 10) and p > F(2, 100):
                p = F(2, 100)
            if self.linux:
                # Faster above 250 ms; slower in silence, and not while something waits; departures run the allowance down.
                if now_delay > 250 * MS:
                    p += F(2, 100)
                self.drop_prob = min(max(self.drop_prob + p, F(0)), F(1))
                if now_delay == 0 and self.qdelay_old == 0 and not self.queue:
                    self.drop_prob -= self.drop_prob / 64
            else:
                self.drop_prob += p
                if now_delay == 0 and self.qdelay_old == 0:
                    self.drop_prob *= F(98, 100)
                self.burst_allowance = max(0, self.burst_allowance - self.tupdate)
        self.drop_prob = rounded(min(max(self.drop_prob, F(0)), F(1)))
        if self.drop_prob == 0 and now_delay < F(self.target, 2) and self.qdelay_old < F(self.target, 2):
            self.burst_allowance = self.max_burst
            self.last_left = None
        self.qdelay_old = now_delay

    def drop_early(self):
        if self.burst_allowance > 0:
            return False
        if self.linux:
            # The delay as of the last departure, and two of Ethernet's frames.
            now_delay = F(self.last_sojourn) if self.estimate == "sojourn" else self.qdelay_old
            if now_delay < F(self.target, 2) and self.drop_prob < F(2, 10):
                return False
            if self.byte_length() < 2 * 1514:
                return False
        elif not self.paper:
            if self.qdelay_old < F(self.target, 2) and self.drop_prob < F(2, 10):
                return False
            if self.byte_length() <= 2 * 1024:
                return False
        if self.derandomize:
            if self.drop_prob == 0:
                self.accu_prob = F(0)
            self.accu_prob += self.drop_prob
            if self.accu_prob < F(85, 100):
                return False
            if self.accu_prob >= F(85, 10):
                return True
        if self.drop_prob == 0:
            return False
        return self.random.uniform() < self.drop_prob

    def arrival(self, packet):
        """Says "enqueue", "mark" or "drop"."""
        if not self.drop_early():
            return "enqueue"
        self.accu_prob = F(0)
        if self.ecn and packet.ecn != NOT_ECT and self.drop_prob < self.mark_limit:
            return "mark"
        return "drop"

    def departure(self, now, packet):
        """After the packet has been taken out of the queue."""
        self.last_sojourn = now - packet.enqueued if self.queue else 0
        if self.estimate == "sojourn":
            if self.linux:
                if self.last_left is not None:
                    self.burst_allowance = max(0, self.burst_allowance - (now - self.last_left))
                self.last_left = now
            return
        if self.in_measurement:
            self.dq_count += packet.len
            if self.dq_count >= self.threshold:
                took = now - self.start
                if took > 0:
                    self.new_measurement(took)
                self.in_measurement = False
        if not self.in_measurement and self.byte_length() >= self.threshold:
            self.in_measurement, self.start, self.dq_count = True, now, 0

    def new_measurement(self, took):
        if self.paper or self.linux:
            rate, eps = F(self.dq_count, took), F(1, 8)
            self.dq_rate = rounded(rate if self.dq_rate is None else (1 - eps) * self.dq_rate + eps * rate)
            self.burst_allowance = max(0, self.burst_allowance - took)
        else:
            weight = min(F(1), F(self.threshold, 2**16))
            old = self.dq_time
            self.dq_time = rounded(F(took) if old is None else took * weight + old * (1 - weight))


class Pie:
    def __init__(self, limit=1000, limit_bytes=10**15, **params):
        self.log, self.packets, self.limit, self.limit_bytes = [], [], limit, limit_bytes
        self.pie = Controller(self.packets, Stream("link/golden/pie/early_drop"), **params)

    def enqueue(self, now, packet):
        self.pie.run_timer(now)
        if len(self.packets) + 1 > self.limit or self.pie.byte_length() + packet.len > self.limit_bytes:
            self.pie.accu_prob = F(0)
            self.log.append(f"drop {packet.id} overlimit")
            return
        fate = self.pie.arrival(packet)
        if fate == "drop":
            self.log.append(f"drop {packet.id} early_drop")
            return
        if fate == "mark":
            packet.ecn = CE
            self.log.append(f"mark {packet.id}")
        packet.enqueued = now
        self.packets.append(packet)

    def dequeue(self, now):
        self.pie.run_timer(now)
        if not self.packets:
            return None
        packet = self.packets.pop(0)
        self.pie.departure(now, packet)
        return packet


def load(seed, spans, ecns=(NOT_ECT,)):
    """Arrivals in spans of (from_ms, to_ms, mean gap in us), sizes from 40 to 1500 bytes."""
    chance, arrivals = Chance(seed), []
    for begin, end, gap_us in spans:
        t = begin * MS
        while True:
            t += chance.below(2 * gap_us * 1000)
            if t >= end * MS:
                break
            length = (40, 576, 1500, 1500, 1500)[chance.below(5)]
            arrivals.append((t, 1, length, ecns[chance.below(len(ecns))]))
    return arrivals


SWINGS = [(0, 1800, 6200), (1800, 2600, 22000), (2600, 4200, 4000), (9000, 9500, 3000), (9500, 10800, 7400)]


def swings():
    """1.2 Mbit/s; overload, underload, heavy overload, five seconds of silence, and a burst that its allowance
    lets pass."""
    return "pie", run(Pie(), load(8033, SWINGS), 1_200_000, 12_000 * MS)


def drain_rate():
    """The same with the delay from the drain rate, and room for 60 packets and 40 kB only."""
    queue = Pie(estimate="drain_rate", limit=60, limit_bytes=40_000)
    return "pie:estimate=drain_rate,limit=60,bytes=40 kB", run(queue, load(52, SWINGS), 1_200_000, 12_000 * MS)


def mixed_ecn():
    """Two thirds can be marked; the probability passes 50 %, above which they are dropped all the same."""
    spans = [(0, 4000, 6300), (4000, 5200, 2600), (5200, 6000, 7000)]
    arrivals = load(51, spans, (NOT_ECT, ECT0, CE))
    queue = Pie(target=60 * MS, ecn=True, mark_limit=F(1, 2))
    return "pie:target=60 ms,ecn=true,mark_limit=0.5", run(queue, arrivals, 1_200_000, 9_000 * MS)


def paper_2013():
    """Equations 16 to 21 with the paper's values."""
    return "pie:variant=2013", run(Pie(variant=2013), load(2013, SWINGS), 1_200_000, 12_000 * MS)


def linux():
    """Linux's law on sojourn times, up to delays over 250 ms."""
    spans = SWINGS + [(11000, 11600, 3000)]
    return "pie:variant=linux", run(Pie(variant="linux"), load(6, spans, (NOT_ECT, ECT0)), 1_200_000, 14_000 * MS)


def linux_drain_rate():
    queue = Pie(variant="linux", estimate="drain_rate", ecn=True)
    spec = "pie:variant=linux,estimate=drain_rate,ecn=true"
    return spec, run(queue, load(5, SWINGS, (NOT_ECT, ECT0)), 1_200_000, 12_000 * MS)


def paper_2013_ecn_fast():
    """The paper's law on sojourn times, with other gains, a short period and little room."""
    queue = Pie(variant=2013, target=5 * MS, tupdate=8 * MS, burst=40 * MS, estimate="sojourn", ecn=True,
                mark_limit=F(3, 10), alpha=F(1, 4), beta=F(5, 2), limit=40)
    spec = "pie:variant=2013,target=5 ms,tupdate=8 ms,burst=40 ms,estimate=sojourn,ecn=true,mark_limit=0.3,alpha=0.25,beta=2.5,limit=40"
    return spec, run(queue, load(20, SWINGS, (NOT_ECT, ECT0)), 1_200_000, 12_000 * MS)


if __name__ == "__main__":
    main("pie.py", {f.__name__: f for f in (swings, drain_rate, mixed_ecn, paper_2013, paper_2013_ecn_fast, linux, linux_drain_rate)})
