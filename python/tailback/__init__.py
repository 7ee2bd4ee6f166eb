"""Find where packets wait on an Internet link, how long and why, and the cure.

Every verb of the command `tailback` is a function with the same name, options and figures. Recordings are lazy tables
for every reader of Arrow.

>>> import tailback as tb
>>> tb.model("bdp", "rate=700kbit/s", "rtt=19ms").figures[0].value
1662.5
"""

from __future__ import annotations

import atexit as _atexit

from . import _native
from . import testing as testing
from ._answer import Answer as Answer
from ._answer import Figure as Figure
from ._answer import Node as Node
from ._call import command as command
from ._errors import DamageWarning as DamageWarning
from ._errors import Error as Error
from ._errors import RecordingError as RecordingError
from ._errors import UnknownError as UnknownError
from ._errors import UsageError as UsageError
from ._native import Packet as Packet
from ._native import __version__ as __version__
from ._plugins import Controller as Controller
from ._plugins import Qdisc as Qdisc
from ._plugins import Source as Source
from ._recording import Plot as Plot
from ._recording import Recording as Recording
from ._recording import Table as Table
from ._recording import open as open
from ._sim import Difference as Difference
from ._sim import Run as Run
from ._sim import Sweep as Sweep
from ._sim import sim as sim
from ._sim import sweep as sweep
from .verbs import *

# An interrupted run closes its recording before Python ends.
_atexit.register(_native.settle, 5.0)
