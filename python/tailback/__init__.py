"""Find where packets wait on an Internet link, how long and why, and the cure.

Every verb of the command `tailback` is a function with the same name, options and figures. Recordings are lazy tables
for every reader of Arrow.

>>> import tailback as tb
>>> tb.model("bdp", {"rate": "700kbit/s", "rtt": "19ms"})["bytes"]
1662.5
"""

from __future__ import annotations

import atexit as _atexit

from . import _native, verbs
from ._answer import Answer, Figure, Node
from ._call import run as command
from ._errors import DamageWarning, Error, RecordingError, UnknownError, UsageError
from ._native import __version__
from ._recording import Plot, Recording, Table
from ._recording import open_recording as open
from .verbs import *

from ._sim import Run, Sweep, sim, sweep  # isort: skip  # The verb `sim` with a seed and its tables.

__all__ = [
    "Answer",
    "DamageWarning",
    "Error",
    "Figure",
    "Node",
    "Plot",
    "Recording",
    "RecordingError",
    "Run",
    "Sweep",
    "Table",
    "UnknownError",
    "UsageError",
    "__version__",
    "command",
    "open",
    "sim",
    "sweep",
]
__all__ += verbs.__all__

# An interrupted run closes its recording before Python ends.
_atexit.register(_native.settle, 5.0)
