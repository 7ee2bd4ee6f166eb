"""Recordings: lazy tables for every Arrow consumer, and the verbs that read a recording."""

from __future__ import annotations

import io
import os

from . import _native, verbs
from ._errors import DamageWarning, Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    import polars

    from ._answer import Answer
    from ._types import Path

TABLES = tuple(_native.table_names())


class Table:
    """Table of a recording. Nothing is read before a consumer asks for rows; each consumer gets a new stream.

    Every reader of the Arrow PyCapsule interface takes it: ``polars.DataFrame(table)``, ``pyarrow.table(table)``,
    DuckDB's ``from table``. Times are UNIX nanoseconds as 64-bit integers; an unknown value is null, never 0.
    """

    __slots__ = ("_losses", "_path", "_rows", "_select", "name")

    def __init__(self, path: Path, name: str, columns: tuple[str, ...] = ()) -> None:
        self._path = os.fspath(path)
        self._select = list(columns)
        self._rows: int | None = None
        self._losses: _native.Losses | None = None
        self.name: str = name

    def select(self, *columns: str) -> Table:
        """Returns the table with these columns alone; the files' other columns are not read."""
        _native.table_files(self._path, self.name, list(columns))
        return Table(self._path, self.name, columns)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return _native.table_files(self._path, self.name, self._select)[0]

    @property
    def files(self) -> list[str]:
        """Files of the table, for engines that read Parquet themselves; Arrow streams while the recording is open."""
        return [os.fspath(file) for file in _native.table_files(self._path, self.name, self._select)[1]]

    def damage(self) -> list[str]:
        """Reads the table, and returns the losses of its files."""
        return _native.table_rows(self._path, self.name, self._select)[1]

    def __len__(self) -> int:
        if self._rows is None:
            self._rows, losses = _native.table_rows(self._path, self.name, self._select)
            for loss in losses:
                _warn(loss)
        return self._rows

    def __bool__(self) -> bool:
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Capsule of a new Arrow stream. The schema is the table's own, whatever is requested."""
        capsule, self._losses = _native.table_stream(self._path, self.name, self._select)
        return capsule

    def _warn(self) -> None:
        """Warns of the losses of the stream that was read last."""
        for loss in self._losses.list() if self._losses else ():
            _warn(loss)

    def __arrow_c_schema__(self) -> Any:
        """Capsule of the Arrow schema."""
        return _native.table_schema(self.name, self._select)

    def to_polars(self) -> polars.DataFrame:
        """Reads the table into a Polars data frame."""
        try:
            import polars
        except ImportError:
            raise _missing("polars") from None
        frame = polars.DataFrame(self)
        self._warn()
        return frame

    def to_arrow(self) -> Any:
        """Reads the table into a pyarrow table."""
        try:
            import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            raise _missing("pyarrow") from None
        # `pyarrow.table` would import pandas to ask if this is one of its frames.
        table = pyarrow.RecordBatchReader.from_stream(self).read_all()
        self._warn()
        return table

    def to_pandas(self) -> Any:
        """Reads the table into a pandas data frame; needs pyarrow.

        Numbers are columns of Arrow types, so that nanoseconds stay whole and an unknown value is missing, not NaN.
        Texts are categories.
        """
        try:
            import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            raise _missing("pandas") from None

        def kept(of: Any) -> Any:
            return None if str(of).startswith("dictionary") else pandas.ArrowDtype(of)

        return self.to_arrow().to_pandas(types_mapper=kept)

    def __repr__(self) -> str:
        return f"Table({self.name!r} of {self._path!r}: {', '.join(self.columns)})"


def _missing(package: str) -> Error:
    return Error(f"{package} is not installed", f"pip install {package}")


def _warn(loss: str) -> None:
    import warnings

    warnings.warn(loss, DamageWarning, stacklevel=3)


class Recording:
    """Recording on disk. Its tables are attributes: ``recording.delay``, ``recording.queue``."""

    __slots__ = ("_meta", "path")

    def __init__(self, path: Path) -> None:
        self.path: str = os.fspath(path)
        self._meta: dict[str, Any] | None = None
        _native.table_files(self.path, TABLES[0], [])

    @property
    def meta(self) -> dict[str, Any]:
        """Facts of the recording: title, origin, plan, host, phases."""
        if self._meta is None:
            import json

            with io.open(os.path.join(self.path, "meta.json"), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                self._meta = json.load(file)
        return self._meta

    @property
    def tables(self) -> dict[str, Table]:
        """Tables that have files."""
        found = (Table(self.path, name) for name in TABLES)
        return {table.name: table for table in found if table.files}

    def __getattr__(self, name: str) -> Table:
        if name in TABLES:
            return Table(self.path, name)
        raise AttributeError(f"a recording has no {name!r}; its tables are {', '.join(TABLES)}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLES]

    def analyse(self, **options: Any) -> Answer:
        """Analyses the recording: `tailback.analyse` with the same options."""
        return verbs.analyse(self.path, **options)

    def report(self, **options: Any) -> Answer:
        """Writes the recording's report or a plot: `tailback.report` with the same options."""
        return verbs.report(self.path, **options)

    def fit(self, **options: Any) -> Answer:
        """Fits a twin of the link: `tailback.twin` with the same options."""
        return verbs.twin(self.path, **options)

    def whatif(self, **options: Any) -> Answer:
        """Tries cures on the link's twin: `tailback.whatif` with the same options."""
        return verbs.whatif(self.path, **options)

    def plot(self, plot: str | None = None, **options: Any) -> Plot:
        """Draws a plot of the report, such as "rtt" or "cdf"."""
        import tempfile

        chosen: Any = plot or ("rtt" if "delay" in self.tables else "queue")
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "plot.svg")  # noqa: PTH118
            verbs.report(self.path, plot=chosen, output=file, **options)
            with io.open(file, encoding="utf-8") as svg:  # noqa: PTH123
                return Plot(svg.read())

    def explore(self, plot: str | None = None, **options: Any) -> Any:
        """Draws a plot that shows its values under the pointer and zooms into a time; needs anywidget.

        Without anywidget it is the plot of `plot`.
        """
        from ._explore import explore

        return explore(self, plot, options)

    def __repr__(self) -> str:
        return f"Recording({self.path!r}: {', '.join(self.tables)})"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr><th>{name}</th><td>{len(table.files)} files</td></tr>" for name, table in self.tables.items())
        head = f"<p><b>{escape(str(self.meta.get('title', '')))}</b> {escape(self.path)}</p><table>{rows}</table>"
        try:
            return head + self.plot().svg
        except Error:
            # A recording without anything to draw has a table alone.
            return head


class Plot:
    """Plot as SVG, which notebooks show."""

    __slots__ = ("svg",)

    def __init__(self, svg: str) -> None:
        self.svg: str = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: Path) -> None:
        """Writes the SVG to a file."""
        with io.open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(self.svg)


def open(path: Path) -> Recording:
    """Opens a recording. Only its description is read; a path that is no recording raises `RecordingError`."""
    return Recording(path)
