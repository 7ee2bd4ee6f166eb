"""Reno's window as RFC 5681, "TCP Congestion Control", sections 3.1 and 4.1 have it, with bytes counted as
RFC 3465, "TCP Congestion Control with Appropriate Byte Counting (ABC)", section 2 says. Exact fractions."""

from fractions import Fraction

from congestion_trace import main

L = 2  # RFC 3465 section 2.3


class Reno:
    def __init__(self, mss, initial_window):
        self.mss, self.iw = mss, initial_window
        self.cwnd, self.ssthresh = Fraction(initial_window), None
        self.bytes_acked = Fraction(0)
        self.slow_start_after_rto = False
        self.before = None

    def ack(self, now, acked, inflight_before, cwnd_limited, in_recovery, srtt):
        slow_start = self.ssthresh is None or self.cwnd < self.ssthresh
        # A window that is not used is not a reason to grow it; in slow start half of it is use enough.
        if in_recovery or not (cwnd_limited or (slow_start and 2 * inflight_before > self.cwnd)):
            return
        left = Fraction(acked)
        if slow_start:
            most = (1 if self.slow_start_after_rto else L) * self.mss
            increase = min(left, Fraction(most))
            if self.ssthresh is None or self.cwnd + increase < self.ssthresh:
                self.cwnd += increase
                return
            # ssthresh is reached within this ACK: what is left of it counts for congestion avoidance.
            left -= self.ssthresh - self.cwnd
            self.cwnd = self.ssthresh
            self.slow_start_after_rto = False
            self.bytes_acked = Fraction(0)
        # RFC 3465 section 2.1.
        self.bytes_acked += left
        if self.bytes_acked >= self.cwnd:
            self.bytes_acked = min(self.bytes_acked - self.cwnd, self.cwnd)
            self.cwnd += self.mss

    def half(self, flight):
        # Equation 4: segments of limited transmit are not part of FlightSize here.
        return max(min(Fraction(flight), self.cwnd) / 2, Fraction(2 * self.mss))

    def loss(self, now, flight):
        self.before = (self.cwnd, self.ssthresh)
        self.ssthresh = self.half(flight)
        self.cwnd = max(min(self.ssthresh, self.cwnd), Fraction(2 * self.mss))
        self.bytes_acked = Fraction(0)
        self.slow_start_after_rto = False

    ecn = loss

    def rto(self, now, flight, repeated):
        if not repeated:
            self.before = (self.cwnd, self.ssthresh)
            self.ssthresh = self.half(flight)
        self.cwnd = Fraction(self.mss)
        self.bytes_acked = Fraction(0)
        self.slow_start_after_rto = True

    def spurious(self, now):
        if self.before is None:
            return
        cwnd, ssthresh = self.before
        self.before = None
        self.cwnd = max(self.cwnd, cwnd)
        self.ssthresh = None if ssthresh is None or self.ssthresh is None else max(self.ssthresh, ssthresh)
        self.slow_start_after_rto = False

    def idle(self, now, lasted, restart):
        # Section 4.1.
        if restart:
            self.cwnd = min(self.cwnd, Fraction(self.iw))
            self.bytes_acked = Fraction(0)


if __name__ == "__main__":
    main("congestion_reno.py", "newreno", Reno)
