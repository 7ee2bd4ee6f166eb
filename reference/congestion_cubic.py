"""CUBIC as RFC 9438, "CUBIC for Fast and Long-Distance Networks", section 4 prints it, in segments and
seconds with sixty decimal digits. Slow start is RFC 5681's, counted in bytes, 8 segments an ACK; HyStart
is off."""

from decimal import Decimal, getcontext

from congestion_trace import main

getcontext().prec = 60
C, BETA = Decimal("0.4"), Decimal("0.7")
ALPHA = 3 * (1 - BETA) / (1 + BETA)
SECOND = Decimal(10**9)


def cube_root(x):
    return x ** (Decimal(1) / 3) if x > 0 else Decimal(0)


class Cubic:
    def __init__(self, mss, initial_window):
        self.mss, self.iw = Decimal(mss), Decimal(initial_window) / mss
        self.w = self.iw  # cwnd in segments
        self.thresh = None
        self.w_max = None  # none: congestion avoidance begins at the curve's origin
        self.cwnd_prior = Decimal(0)
        self.stage = None  # (t_epoch, K, W_max of the curve, W_est) of this stage of avoidance
        self.slow_start_after_rto = False
        self.last_ack = 0
        self.before = None

    @property
    def cwnd(self):
        return self.w * self.mss

    @property
    def ssthresh(self):
        return None if self.thresh is None else self.thresh * self.mss

    def ack(self, now, acked, inflight_before, cwnd_limited, in_recovery, srtt):
        idle_for, self.last_ack = now - self.last_ack, now
        slow_start = self.thresh is None or self.w < self.thresh
        used = cwnd_limited or (slow_start and 2 * inflight_before > self.cwnd)
        if in_recovery or not used:
            # Section 4.2: t is the time in congestion avoidance with a window in use.
            if self.stage:
                t_epoch, k, w_max, w_est = self.stage
                self.stage = (t_epoch + idle_for, k, w_max, w_est)
            return
        segments = Decimal(acked) / self.mss
        if slow_start:
            increase = min(segments, Decimal(1 if self.slow_start_after_rto else 8))
            if self.thresh is None or self.w + increase < self.thresh:
                self.w += increase
                return
            segments -= self.thresh - self.w
            self.w = self.thresh
            self.slow_start_after_rto = False
            if segments <= 0:
                return
        self.avoid(now, segments, Decimal(srtt) / SECOND)

    def avoid(self, now, segments_acked, rtt):
        if self.stage is None:
            if self.w_max is None:
                # Section 4.8: after a time-out, and 4.10: after slow start ended by itself.
                self.cwnd_prior = self.w
            if self.w_max is None or self.w_max <= self.w:
                self.stage = (now, Decimal(0), self.w, self.w)
            else:
                # Equation 2.
                self.stage = (now, cube_root((self.w_max - self.w) / C), self.w_max, self.w)
        t_epoch, k, w_max, w_est = self.stage
        t = Decimal(now - t_epoch) / SECOND

        def w_cubic(t):  # Equation 1
            return C * (t - k) ** 3 + w_max

        # Equation 4; section 4.3: alpha is 1 once W_est has reached cwnd_prior.
        alpha = ALPHA if w_est < self.cwnd_prior else Decimal(1)
        w_est += alpha * segments_acked / self.w
        self.stage = (t_epoch, k, w_max, w_est)
        if w_cubic(t) < w_est:
            self.w = max(self.w, w_est)
            return
        target = min(max(w_cubic(t + rtt), self.w), Decimal("1.5") * self.w)
        self.w += (target - self.w) / self.w * segments_acked

    def congestion(self, flight):
        """Sections 4.6 and 4.7; returns ssthresh before its bound."""
        self.before = (self.w, self.thresh, self.w_max, self.cwnd_prior, self.stage)
        self.cwnd_prior = self.w
        if self.w_max is not None and self.w < self.w_max:
            self.w_max = self.w * (1 + BETA) / 2
        else:
            self.w_max = self.w
        self.stage = None
        return min(Decimal(flight) / self.mss, self.w) * BETA

    def loss(self, now, flight, least=2):
        ssthresh = self.congestion(flight)
        self.w = max(min(ssthresh, self.w), Decimal(least))
        self.thresh = max(ssthresh, Decimal(2))
        self.slow_start_after_rto = False

    def ecn(self, now, flight):
        self.loss(now, flight, least=1)

    def rto(self, now, flight, repeated):
        if not repeated:
            self.thresh = max(self.congestion(flight), Decimal(2))
            self.w_max = None
        self.w = Decimal(1)
        self.slow_start_after_rto = True

    def spurious(self, now):
        if self.before is None:
            return
        w, thresh, w_max, cwnd_prior, stage = self.before
        self.before = None
        self.slow_start_after_rto = False
        lower = self.w
        self.w = max(self.w, w)
        self.thresh = None if thresh is None or self.thresh is None else max(self.thresh, thresh)
        if lower < self.w:
            # Section 4.9.
            self.w_max, self.cwnd_prior, self.stage = w_max, cwnd_prior, stage

    def idle(self, now, lasted, restart):
        if restart:
            self.w = min(self.w, self.iw)
            self.stage = None
        else:
            if self.stage:
                t_epoch, k, w_max, w_est = self.stage
                self.stage = (t_epoch + lasted, k, w_max, w_est)
            self.last_ack += lasted


if __name__ == "__main__":
    main("congestion_cubic.py", "cubic:hystart=off", Cubic)
