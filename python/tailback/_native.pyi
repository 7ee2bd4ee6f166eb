"""Native part of `tailback`: verbs and tables."""

import os
from collections.abc import Callable, Sequence
from typing import Final, final

__all__ = [
    "Losses",
    "Packet",
    "__version__",
    "add",
    "check_qdisc",
    "columns_schema",
    "columns_stream",
    "estimate",
    "main",
    "run",
    "settle",
    "table_files",
    "table_names",
    "table_rows",
    "table_schema",
    "table_stream",
]

__version__: Final[str]

@final
class Packet:
    """Packet as a discipline sees it: a size and marks, without content."""

    @property
    def id(self) -> int: ...
    @property
    def flow(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def ecn_capable(self) -> bool: ...
    @property
    def dscp(self) -> int: ...
    @property
    def enqueued_ns(self) -> int: ...

def add(
    class_: type, kind: str, name: str, summary: str, parameters: Sequence[tuple[str, str, str]], /
) -> None: ...
def check_qdisc(text: str, seed: int, cases: int) -> None: ...
def run(
    arguments: Sequence[str],
    progress: Callable[[float | None, str], object] | None = None,
) -> tuple[str, bytes, list[str]]: ...
def settle(seconds: float) -> None: ...
def main(arguments: Sequence[str]) -> int: ...
def estimate(values: Sequence[float]) -> tuple[float, float | None] | None: ...
def columns_stream(columns: Sequence[tuple[str, Sequence[str] | Sequence[float | None]]]) -> object: ...
def columns_schema(columns: Sequence[tuple[str, Sequence[str] | Sequence[float | None]]]) -> object: ...
def table_names() -> list[str]: ...

@final
class Losses:
    """Losses of the files of a stream, as far as it has been read."""

    def list(self) -> list[str]: ...

def table_stream(
    path: str | os.PathLike[str], table: str, columns: Sequence[str]
) -> tuple[object, Losses]: ...
def table_schema(table: str, columns: Sequence[str]) -> object: ...
def table_rows(path: str | os.PathLike[str], table: str, columns: Sequence[str]) -> tuple[int, list[str]]: ...
def table_files(
    path: str | os.PathLike[str], table: str, columns: Sequence[str]
) -> tuple[list[str], list[os.PathLike[str]]]: ...
