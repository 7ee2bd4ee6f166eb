"""Deficit round robin between two classes (Shreedhar and Varghese, 1996), told in rounds: a list of classes that have
packets, the one at its front sends until its deficit is used up, then goes to the end with a new quantum."""

import codel
import pie
from prio import Prio, call_beside_bulk
from qdisc_table import MS, main, run


class Drr(Prio):
    def __init__(self, rest, first_quantum=1514, quantum=1514, **params):
        super().__init__(rest, **params)
        self.quanta = {"first": first_quantum, "rest": quantum}
        self.deficit = dict(self.quanta)
        self.order = ["first", "rest"]

    def waiting(self, name):
        return bool(self.first) if name == "first" else bool(self.rest_packets())

    def rest_packets(self):
        return self.rest.packets if hasattr(self.rest, "packets") else self.rest.queue.packets

    def dequeue(self, now):
        while self.waiting("first") or self.waiting("rest"):
            for name in self.order:
                if not self.waiting(name):
                    self.deficit[name] = self.quanta[name]
            name = self.order[0]
            if not self.waiting(name):
                self.order.append(self.order.pop(0))
                continue
            if self.deficit[name] <= 0:
                self.deficit[name] += self.quanta[name]
                self.order.append(self.order.pop(0))
                continue
            packet = self.first.pop(0) if name == "first" else self.rest.dequeue(now)
            if packet is not None:
                self.deficit[name] -= packet.len
                return packet
        return None


def beside_pie():
    """2 Mbit/s, equal weights: the call keeps its delay, its burst does not push the bulk aside."""
    return "drr", run(Drr(pie.Pie()), call_beside_bulk(1, 5000), 2_000_000, 9_000 * MS)


def weights():
    """Half of the bulk is in the first class; it gets a third of the line."""
    queue = Drr(codel.Codel(limit=200), from_dscp=10, first_limit=20, first_quantum=700, quantum=1400)
    spec = "drr:from_dscp=10,first_limit=20,first_quantum=700,quantum=1400,rest=codel,limit=200"
    return spec, run(queue, call_beside_bulk(2, 4000), 2_000_000, 9_000 * MS)


if __name__ == "__main__":
    main("drr.py", {f.__name__: f for f in (beside_pie, weights)})
