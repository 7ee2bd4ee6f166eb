"""Checks of one's own queue disciplines."""

from __future__ import annotations

from . import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._plugins import Qdisc

__all__ = ["check_qdisc"]


def check_qdisc(discipline: type[Qdisc] | str, *, seed: int = 1, cases: int = 64) -> None:
    """Checks what must hold for every discipline, under random arrivals and departures: the built-in ones' own test.

    No packet is lost, invented or reordered within its flow; only packets that are capable of ECN are marked; a queue
    with packets gives one or says when; the same seed gives the same. `discipline` is a class, or a text such as
    "my_queue:limit=50". Raises `tailback.Error` with the seed of the first case that fails, or the class's own exception.
    """
    text = discipline if isinstance(discipline, str) else discipline.name
    _native.check_qdisc(text, seed, cases)
