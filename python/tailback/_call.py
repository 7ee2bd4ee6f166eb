"""Calls of verbs: Python's arguments become the command's, which its own parser reads."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from . import _native
from ._answer import Answer
from ._errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._types import Path, Progress


def text(name: str, value: object) -> str:
    """Value as the command line takes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    import datetime

    if isinstance(value, datetime.timedelta):
        return f"{value // datetime.timedelta(microseconds=1)}us"
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    kind = type(value).__name__
    raise UsageError(f"{name}: a {kind} is no value of this argument", "give a text, a number or a path")


def values(name: str, value: object) -> list[str]:
    """Values of an argument that may be repeated; a mapping gives KEY=VALUE."""
    if isinstance(value, Mapping):
        return [f"{key}={_choices(f'{name}: {key}', of)}" for key, of in value.items()]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike)):
        return [text(name, each) for each in value]
    return [text(name, value)]


def _choices(name: str, value: object) -> str:
    """Value of a key; several, for a sweep, are separated by semicolons."""
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes, os.PathLike)):
        return ";".join(text(name, each) for each in value)
    return text(name, value)


def call(
    verb: tuple[str, ...],
    positional: Mapping[str, object],
    options: Mapping[str, object],
    *,
    not_json: tuple[str, ...] | None,
    progress: Progress = None,
) -> Answer:
    """Carries out a verb. ``not_json`` names the options that exclude JSON; it is None for a verb without JSON."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    arguments = list(verb)
    if not_json is not None and not any(name in given for name in not_json):
        arguments.append("--json")
    for name, value in given.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        arguments += [option] if value is True else [f"{option}={each}" for each in values(name, value)]
    words = [each for name, value in positional.items() if value is not None for each in values(name, value)]
    arguments += ["--", *words] if words else []
    return command(arguments, progress=progress)


def command(arguments: Iterable[Path], *, progress: Progress = None) -> Answer:
    """Carries out a command line without the program's name, such as ``["list", "links"]``."""
    words = values("arguments", arguments)
    if progress is None or progress is False:
        return Answer(*_native.run(words))
    if callable(progress):
        return Answer(*_native.run(words, progress))
    from ._progress import bar

    with bar() as show:
        return Answer(*_native.run(words, show))
