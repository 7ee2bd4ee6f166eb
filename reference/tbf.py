"""A token bucket that delays: for each packet the earliest time at which the bytes sent since any earlier instant stay
within burst + rate * time, in exact fractions. The server asks again when the head packet may leave."""

from fractions import Fraction as F
from math import ceil

from pie import load
from qdisc_table import MS, main, run


class Tbf:
    def __init__(self, rate_bps, burst, limit=1000):
        self.rate, self.burst, self.limit = F(rate_bps, 8 * 10**9), burst, limit  # bytes a ns
        self.log, self.packets = [], []
        self.empty_at = F(-burst) / self.rate  # when the bucket would have been empty, had it filled ever since

    def tokens(self, now):
        return min(F(self.burst), (now - self.empty_at) * self.rate)

    def enqueue(self, now, packet):
        if len(self.packets) == self.limit:
            self.log.append(f"drop {packet.id} overlimit")
            return
        packet.enqueued = now
        self.packets.append(packet)

    def next_wakeup(self, now):
        if not self.packets:
            return None
        need = min(self.packets[0].len, self.burst)
        return max(now, ceil(self.empty_at + need / self.rate))

    def dequeue(self, now):
        if not self.packets or self.next_wakeup(now) > now:
            return None
        packet = self.packets.pop(0)
        self.empty_at = now - (self.tokens(now) - packet.len) / self.rate
        return packet


SPANS = [(0, 1500, 9000), (1500, 2500, 3000), (4000, 5000, 8000)]


def shaper():
    """1 Mbit/s in front of a line of 8."""
    return "tbf:rate=1 Mbit/s,limit=60", run(Tbf(10**6, 3028, 60), load(2697, SPANS), 8_000_000, 9_000 * MS)


def small_bucket():
    """A bucket smaller than most packets, and a rate that divides nothing evenly."""
    return "tbf:rate=777777 bit/s,burst=700", run(Tbf(777_777, 700), load(3, SPANS), 8_000_000, 9_000 * MS)


if __name__ == "__main__":
    main("tbf.py", {f.__name__: f for f in (shaper, small_bucket)})
