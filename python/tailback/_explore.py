"""Plots that a notebook can read and zoom, if anywidget is installed."""

from __future__ import annotations

import io
import os

from ._errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._recording import Recording


def explore(recording: Recording, plot: str | None, options: dict[str, Any]) -> Any:
    """Widget with a plot of the recording; the plot itself if anywidget is not installed."""
    drawn = recording.plot(plot, **options)
    try:
        import anywidget  # type: ignore[import-not-found, unused-ignore]
        import traitlets  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return drawn

    with io.open(os.path.join(os.path.dirname(__file__), "_explore.js"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123
        script = file.read()

    traits = {
        "__doc__": "Plot of a recording; `span` is the drawn time: two instants, UNIX ns as texts, or none for the whole.",
        "_esm": script,
        "svg": traitlets.Unicode().tag(sync=True),
        "span": traitlets.List(traitlets.Unicode()).tag(sync=True),
        "trouble": traitlets.Unicode().tag(sync=True),
    }
    # The base class is known only here, where anywidget is.
    widget = type("Explorer", (anywidget.AnyWidget,), traits)(svg=drawn.svg)

    def draw(change: Any) -> None:
        given = dict(options)
        if change["new"]:
            given["from_"], given["to"] = map(instant, change["new"])
        try:
            widget.svg, widget.trouble = recording.plot(plot, **given).svg, ""
        except Error as e:
            # The plot stays as it is.
            widget.trouble = str(e)

    widget.observe(draw, "span")
    return widget


def instant(ns: str) -> str:
    """Instant as the command line takes it, of a number of UNIX nanoseconds."""
    import datetime

    seconds, rest = divmod(int(ns), 1_000_000_000)
    at = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"
