"""Queue disciplines, congestion controllers and traffic sources written in Python, for `sim`."""

from __future__ import annotations

import re

from . import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    import random
    from typing import Any, Literal

    from ._native import Packet

_KINDS = {int: "int", float: "float", bool: "bool", str: "str"}


def _add(cls: type, kind: str, methods: tuple[str, ...]) -> None:
    """Makes a class usable in scenarios, unless a subclass has still to write its methods."""
    if not all(hasattr(cls, method) for method in methods):
        return
    own = cls.__dict__.get("name")
    name = own if isinstance(own, str) else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
    cls.name = name  # type: ignore[attr-defined]
    declared = dict.fromkeys(key for each in reversed(cls.__mro__) for key in each.__dict__.get("__annotations__", {}))
    parameters = []
    for key in declared:
        default = getattr(cls, key, None)
        if type(default) in _KINDS and key != "name":
            parameters.append((key, str(default).lower() if default is True or default is False else str(default),
                               _KINDS[type(default)]))
    summary = (cls.__doc__ or name).strip().splitlines()[0]
    _native.add(cls, kind, name, summary, parameters)


class Qdisc:
    """Queue discipline: a subclass with ``enqueue(now, packet)`` and ``dequeue(now)`` is used by its name in a scenario.

    The name is the class's own in lower case, or its attribute ``name``. Attributes with a type and a default (int,
    float, bool, str) are parameters: ``link.queue = "my_queue:limit=50"``. Times are nanoseconds of the simulation.
    Random numbers come from ``self.random``, so that a seed repeats the run. ``dequeue`` returns a packet or None. A
    class that holds packets back although the link is free has ``next_wakeup()``, the time of its next packet.
    """

    name: str
    random: random.Random
    _fates: list[tuple[Packet, bool, str]]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _add(cls, "qdisc", ("enqueue", "dequeue"))

    def drop(
        self,
        packet: Packet,
        reason: Literal["overlimit", "target_exceeded", "early_drop", "flow_evicted"] = "early_drop",
    ) -> None:
        """Drops a packet that has arrived or waits."""
        self._fates.append((packet, False, reason))

    def mark(
        self,
        packet: Packet,
        reason: Literal["overlimit", "target_exceeded", "early_drop", "flow_evicted"] = "early_drop",
    ) -> None:
        """Marks a packet that is capable of ECN with CE."""
        self._fates.append((packet, True, reason))


class Controller:
    """Congestion controller: a subclass with ``on_ack(now, ack)`` and ``on_congestion(now, event, flight)``.

    It sets ``self.cwnd`` in bytes, at least ``self.mss``, and ``self.pacing_rate`` in bit/s if it paces. ``ack`` is a
    dictionary: newly_acked, inflight, delivered (bytes), rtt_ns, min_rtt_ns, srtt_ns, rate_bps (None if unknown),
    cwnd_limited, in_recovery. ``event`` is "loss", "ecn", "timeout" or "spurious". ``flight`` is what was outstanding, in
    bytes. Name, parameters and random numbers are as of
    `Qdisc`: ``tcp.controller = "my_controller:gain=2"``.
    """

    name: str
    random: random.Random
    mss: int
    cwnd: float
    pacing_rate: float | None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _add(cls, "controller", ("on_ack", "on_congestion"))


class Source:
    """Traffic source: a subclass with ``next_transfer(now)``.

    It returns the pause in nanoseconds and the bytes of the next transfer, or None for no more. Transfers use one TCP
    connection; each pause starts when the transfer before is acknowledged. Name, parameters and random numbers are as of
    `Qdisc`: ``kind = "my_source"`` in a ``[[flow]]``.
    """

    name: str
    random: random.Random

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _add(cls, "source", ("next_transfer",))
