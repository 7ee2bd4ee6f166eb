"""Answers of verbs: the JSON of the command, read as attributes, with figures that know their interval."""

from __future__ import annotations

from ._errors import Error, UnknownError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class Figure:
    """Number with the interval that holds it with 95 % confidence, or the reason ``why`` there is none.

    An unknown figure has the value None, never 0; ``float(figure)`` raises `UnknownError` then.
    """

    __slots__ = ("high", "low", "value", "why")

    def __init__(
        self,
        value: float | None,
        low: float | None = None,
        high: float | None = None,
        why: str | None = None,
    ) -> None:
        self.value: float | None = value
        self.low: float | None = low
        self.high: float | None = high
        self.why: str | None = why

    def __float__(self) -> float:
        if self.value is None:
            raise UnknownError(f"this figure is unknown: {self.why}", "test .value for None")
        return float(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Figure):
            return NotImplemented
        mine, theirs = (self.value, self.low, self.high, self.why), (other.value, other.low, other.high, other.why)
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.value, self.low, self.high, self.why))

    def __repr__(self) -> str:
        if self.value is None:
            return f"Figure(None, why={self.why!r})"
        return f"Figure({self.value:.6g}, low={self.low:.6g}, high={self.high:.6g})"

    def __str__(self) -> str:
        if self.value is None:
            return f"unknown: {self.why}"
        return f"{self.value:.6g} ({self.low:.6g} to {self.high:.6g})"


class Node:
    """Part of an answer: its keys are attributes and items."""

    __slots__ = ("_of",)

    def __init__(self, of: dict[str, object]) -> None:
        self._of = of

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return view(self._of[name])
        except KeyError:
            raise AttributeError(f"there is no {name!r}; there are {', '.join(self._of)}", name=name, obj=self) from None

    def __getitem__(self, name: str) -> object:
        return view(self._of[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._of]

    def as_dict(self) -> dict[str, object]:
        """Plain dictionary, as ``json.loads`` gives it."""
        return self._of

    def __repr__(self) -> str:
        parts = (f"{key}={_short(value)}" for key, value in self._of.items())
        return f"{type(self).__name__}({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return html(self._of)


def view(value: object) -> object:
    """Value of an answer as Python shows it: a figure, a node, a list of both, or itself."""
    if isinstance(value, dict):
        if value.keys() == {"value", "low", "high"}:
            return Figure(value["value"], value["low"], value["high"])
        if value.keys() == {"cannot_tell"}:
            return Figure(None, why=value["cannot_tell"])
        return Node(value)
    if isinstance(value, list):
        return [view(each) for each in value]
    return value


def _short(value: object) -> str:
    seen = view(value)
    if isinstance(seen, Node):
        return "…"
    if isinstance(seen, list):
        return f"[{len(seen)}]"
    return repr(seen)


def html(value: object, depth: int = 0) -> str:
    """HTML of a part of an answer: tables within tables."""
    from html import escape

    seen = view(value)
    if isinstance(seen, Node):
        rows = (f"<tr><th>{escape(key)}</th><td>{html(of, depth + 1)}</td></tr>" for key, of in seen.as_dict().items())
        table = f"<table>{''.join(rows)}</table>"
        return f"<details><summary>{len(seen)} values</summary>{table}</details>" if depth else table
    if isinstance(seen, list):
        items = "".join(f"<li>{html(each, depth + 1)}</li>" for each in value)  # type: ignore[attr-defined]
        return f"<details><summary>{len(seen)} items</summary><ol>{items}</ol></details>" if seen else ""
    return "" if seen is None else escape(str(seen))


class Answer(Node):
    """Answer of a verb.

    ``text`` is what the command prints; ``json`` is the same if that is JSON, byte for byte. The keys of the JSON are
    attributes. ``outcome`` is "done", "above" (a finding is above the threshold that was asked for) or "could not
    measure". ``notes`` holds the doubts and warnings of the run.
    """

    __slots__ = ("notes", "outcome", "text")

    def __init__(self, outcome: str, printed: bytes, notes: list[str]) -> None:
        self.outcome: str = outcome
        self.text: str = printed.decode()
        self.notes: list[str] = notes
        read = {}
        if self.text.startswith(("{", "[")):
            from json import loads

            read = loads(self.text)
        super().__init__(read if isinstance(read, dict) else {"items": read})

    @property
    def json(self) -> str:
        """JSON as the command prints it.

        Raises `Error` for an answer that is text.
        """
        if not self.text.startswith(("{", "[")):
            raise Error("this answer is text, not JSON", "read .text")
        return self.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return super().__repr__() if len(self) else f"Answer(text={self.text!r})"

    def _repr_html_(self) -> str:
        from html import escape

        return super()._repr_html_() if len(self) else f"<pre>{escape(self.text)}</pre>"
