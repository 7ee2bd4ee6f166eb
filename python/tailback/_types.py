"""Types of arguments, for type checkers; nothing imports this module when a program runs."""

import datetime
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Path: TypeAlias = str | os.PathLike[str]
Time: TypeAlias = str | datetime.datetime
Duration: TypeAlias = str | datetime.timedelta
Pairs: TypeAlias = Mapping[str, object] | Iterable[str]
Progress: TypeAlias = Callable[[float | None, str], object] | bool | None
