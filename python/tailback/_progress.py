"""Progress bar of a call with ``progress=True``."""

from __future__ import annotations

import contextlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def bar() -> Iterator[Callable[[float | None, str], object]]:
    """Bar of tqdm if it is installed, else a line on standard error."""
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        yield _line
        print(file=sys.stderr)
        return
    with tqdm(total=1000, bar_format="{l_bar}{bar}| {desc} {elapsed}<{remaining}") as shown:

        def show(share: float | None, text: str) -> None:
            if share is not None:
                shown.update(round(share * 1000) - shown.n)
            shown.set_description_str(text)

        yield show


def _line(share: float | None, text: str) -> None:
    percent = "" if share is None else f"{share:4.0%}"
    print(f"\r{percent} {text[:70]:70}", end="", file=sys.stderr, flush=True)
