"""First in, first out with a limit in packets, in bytes, or both, told by subtraction: what waits is what was let in less
what was served, and an arrival is refused where it would make that more than a limit."""

from pie import load
from qdisc_table import MS, main, run


class Fifo:
    def __init__(self, packets=None, bytes=None):
        self.packets, self.bytes = packets, bytes
        self.log, self.let_in, self.served = [], [], 0

    def enqueue(self, now, packet):
        waiting = self.let_in[self.served:] + [packet]
        if self.packets is not None and len(waiting) > self.packets:
            self.log.append(f"drop {packet.id} overlimit")
        elif self.bytes is not None and sum(p.len for p in waiting) > self.bytes:
            self.log.append(f"drop {packet.id} overlimit")
        else:
            packet.enqueued = now
            self.let_in.append(packet)

    def dequeue(self, now):
        if self.served == len(self.let_in):
            return None
        self.served += 1
        return self.let_in[self.served - 1]


SPANS = [(0, 300, 700), (300, 600, 1500), (600, 800, 500)]


def packets():
    return "fifo:packets=20", run(Fifo(packets=20), load(11, SPANS), 8_000_000, 2_000 * MS)


def bytes_of_an_adsl_modem():
    """Small packets find room where large ones do not."""
    return "fifo:bytes=37625 B", run(Fifo(bytes=37_625), load(12, SPANS), 8_000_000, 2_000 * MS)


def both():
    return "fifo:packets=15,bytes=20000 B", run(Fifo(packets=15, bytes=20_000), load(13, SPANS), 8_000_000, 2_000 * MS)


if __name__ == "__main__":
    main("fifo.py", {f.__name__: f for f in (packets, bytes_of_an_adsl_modem, both)})
