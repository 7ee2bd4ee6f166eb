"""Native part of `tailback`: verbs and tables."""

import os
from collections.abc import Callable, Sequence
from typing import Final, final

__all__ = [
    "Losses",
    "__version__",
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
    def list(self) -> list[str]: ...

def table_stream(
    path: str | os.PathLike[str], table: str, columns: Sequence[str]
) -> tuple[object, Losses]: ...
def table_schema(table: str, columns: Sequence[str]) -> object: ...
def table_rows(path: str | os.PathLike[str], table: str, columns: Sequence[str]) -> tuple[int, list[str]]: ...
def table_files(
    path: str | os.PathLike[str], table: str, columns: Sequence[str]
) -> tuple[list[str], list[os.PathLike[str]]]: ...
