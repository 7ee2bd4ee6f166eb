"""FQ-CoDel as RFC 8290, "The Flow Queue CoDel Packet Scheduler and Active Queue Management Algorithm",
sections 4.1 and 4.2 tell it in words. Each flow number has a queue of its own here: scenarios use few
flows and the implementation under test many queues, so that none collide."""

import codel
from qdisc_table import ECT0, ECT1, MS, NOT_ECT, Chance, main, run


class FqCodel:
    def __init__(self, limit=10240, quantum=1514, ecn=True, memory=32 << 20, **threshold):
        self.log = []
        self.threshold = threshold
        self.limit, self.quantum, self.ecn, self.memory = limit, quantum, ecn, memory
        self.queues = {}  # flow -> codel.Queue
        self.credits = {}  # flow -> bytes
        self.new, self.old = [], []

    def enqueue(self, now, packet):
        flow = packet.flow
        queue = self.queues.setdefault(flow, codel.Queue(self.log, limit=10**9, ecn=self.ecn, **self.threshold))
        queue.enqueue(now, packet)
        if flow not in self.new and flow not in self.old:
            self.new.append(flow)
            self.credits[flow] = self.quantum
        while self.total_packets() > self.limit or self.total_bytes() > self.memory:
            self.drop_from_fattest(flow)

    def total_packets(self):
        return sum(len(q.packets) for q in self.queues.values())

    def total_bytes(self):
        return sum(q.bytes() for q in self.queues.values())

    def drop_from_fattest(self, arriving):
        """Section 4.1: from the head of the queue with most bytes, up to half of them, at most 64 packets."""
        most = max(q.bytes() for q in self.queues.values())
        fattest = [f for f, q in self.queues.items() if q.bytes() == most]
        assert len(fattest) == 1, "the scenario must not depend on how a tie is broken"
        queue, gone = self.queues[fattest[0]], 0
        why = "overlimit" if fattest[0] == arriving else "flow_evicted"
        for _ in range(64):
            packet = queue.packets.pop(0)
            self.log.append(f"drop {packet.id} {why}")
            gone += packet.len
            if gone >= most // 2:
                break

    def dequeue(self, now):
        while self.new or self.old:
            current = self.new if self.new else self.old
            flow = current[0]
            if self.credits[flow] <= 0:
                self.credits[flow] += self.quantum
                self.old.append(current.pop(0))
                continue
            packet = self.queues[flow].dequeue(now)
            if packet is None:
                current.pop(0)
                if current is self.new:
                    self.old.append(flow)
                continue
            self.credits[flow] -= packet.len
            return packet
        return None


def two_greedy_one_sparse():
    """4 Mbit/s; two flows of full packets that offer 1.5 times the rate together, and one of 100 bytes
    each 20 ms, whose packets must hardly wait."""
    arrivals = [(t * 2 * MS + 7, 1, 1500, ECT0) for t in range(0, 700)]
    arrivals += [(t * 3 * MS + 11, 2, 1300, NOT_ECT) for t in range(100, 600)]
    arrivals += [(t * 20 * MS + 13, 3, 100, NOT_ECT) for t in range(0, 120)]
    return "fq_codel:flows=65536", run(FqCodel(), sorted(arrivals), 4_000_000, 6_000 * MS)


def many_flows():
    """Twelve flows of changing weight, sizes from 40 to 1500 bytes, a quantum of 300 bytes, a third of
    the packets ECN-capable; flows fall idle and come back as new ones."""
    chance, arrivals = Chance(8290), []
    for t in range(0, 2500 * 1000, 1700):
        if 900_000 < t < 1_200_000:
            continue
        flow = 1 + min(chance.below(12), chance.below(12))
        arrivals.append(
            (t * 1000 + chance.below(1_000_000), flow, 40 + chance.below(1461), (NOT_ECT, NOT_ECT, ECT0)[chance.below(3)])
        )
    return "fq_codel:quantum=300 B,flows=65536", run(FqCodel(quantum=300), sorted(arrivals), 3_000_000, 6_000 * MS)


def too_little_room():
    """A limit in packets, then in bytes, is reached: the fattest flow pays, whoever arrives."""
    chance, arrivals = Chance(64), []
    for t in range(0, 600):
        flow = 9 if chance.below(10) < 7 else 1 + chance.below(4)
        arrivals.append((t * MS + chance.below(900_000), flow, 200 + chance.below(1301), NOT_ECT))
    # A flood of small ones: more than 64 packets are less than half of the bytes.
    arrivals += [(700 * MS + t * 1000, 5, 101 + t % 7, NOT_ECT) for t in range(0, 400)]
    return "fq_codel:limit=250,flows=65536,memory=60 kB", run(
        FqCodel(limit=250, memory=60_000), sorted(arrivals), 2_000_000, 6_000 * MS
    )


def l4s_threshold():
    """Three flows, one of each of ECT(1), ECT(0) and Not-ECT; ce_threshold applies to the first alone."""
    chance, arrivals = Chance(9331), []
    for t in range(0, 2500 * 1000, 2600):
        flow = 1 + chance.below(3)
        ecn = (ECT1, ECT0, NOT_ECT)[flow - 1]
        arrivals.append((t * 1000 + chance.below(1_000_000), flow, 200 + chance.below(1301), ecn))
    return "fq_codel:flows=65536,ce_threshold=3 ms,ce_l4s=true", run(
        FqCodel(ce_threshold=3 * MS, ce_l4s=True), sorted(arrivals), 2_700_000, 6_000 * MS
    )


if __name__ == "__main__":
    main("fq_codel.py", {f.__name__: f for f in (two_greedy_one_sparse, many_flows, too_little_room, l4s_threshold)})
