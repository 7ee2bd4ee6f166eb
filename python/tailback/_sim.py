"""Simulations: the verb `sim` with a seed, and the run's tables."""

from __future__ import annotations

import os

from . import _native, verbs
from ._answer import Answer, Figure
from ._call import text
from ._call import values as values_of
from ._errors import UsageError
from ._recording import TABLES, Recording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from ._types import Pairs, Path, Progress


class Run(Answer):
    """Simulation: its figures, and its recording's tables as attributes (``run.queue``)."""

    __slots__ = ("__weakref__", "_again", "_recording")

    def __init__(self, answer: Answer, again: dict[str, Any]) -> None:
        super().__init__(answer.outcome, answer.text.encode(), answer.notes)
        self._again = again
        self._recording: Recording | None = None

    @property
    def recording(self) -> Recording:
        """Recording of the first seed. Without ``output`` the run is repeated once, into a temporary directory."""
        if self._recording is None:
            path = self._again["output"]
            if path is None:
                import shutil
                import tempfile
                import weakref

                directory = tempfile.mkdtemp(prefix="tailback-")
                weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
                path = f"{directory}/run.rec"
                verbs.sim(**{**self._again, "output": path, "seeds": 1})
            self._recording = Recording(path)
        return self._recording

    def __getattr__(self, name: str) -> object:
        if name in TABLES and name not in self._of:
            return getattr(self.recording, name)
        return super().__getattr__(name)


def sim(
    scenario: Path,
    *,
    set: Pairs | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    sweep: Mapping[str, Iterable[object]] | Iterable[str] | None = None,
    output: Path | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Run:
    """Simulates a scenario, packet by packet, in virtual time: the verb `tailback sim`.

    Args:
        scenario: Scenario as a TOML file
        set: Values to change, such as {"link.queue": "pie"}
        seed: Seed of the first run [default: the scenario's]
        seeds: Number of seeds; figures get 95 % confidence intervals
        sweep: Values to try, such as {"link.queue": ["fifo", "pie"]}
        output: Recording to write; with a sweep, a directory with one recording for each value
        threads: Cores to use [default: all]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    changed = [] if set is None else values_of("set", set)
    if seed is not None:
        changed.append(f"seed={seed}")
    again: dict[str, Any] = {
        "scenario": scenario,
        "set": changed,
        "seeds": seeds,
        "sweep": sweep,
        "output": output,
        "threads": threads,
        "progress": progress,
    }
    return Run(verbs.sim(**again), again)


class Sweep(Answer):
    """Simulations of several values and seeds: one row for each run, for every reader of Arrow."""

    __slots__ = ("_rows", "values")

    def __init__(self, answer: Answer, values: Mapping[str, list[str]]) -> None:
        super().__init__(answer.outcome, answer.text.encode(), answer.notes)
        self.values: dict[str, list[str]] = dict(values)
        points: Any = self._of["items"]
        self._rows = [row for point in points for row in _rows(point, self.values)]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Swept values, seed and figures of each run; a figure's name is that of `tailback sim --json`."""
        return self._rows

    def _columns(self) -> list[tuple[str, list[Any]]]:
        names = dict.fromkeys(name for row in self._rows for name in row)
        return [(name, [row.get(name) for row in self._rows]) for name in names]

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Capsule of a new Arrow stream of the rows."""
        return _native.columns_stream(self._columns())

    def __arrow_c_schema__(self) -> Any:
        """Capsule of the Arrow schema."""
        return _native.columns_schema(self._columns())

    def differences(self, figure: str) -> list[Difference]:
        """Differences of a figure between each combination of values and the first one, with their intervals.

        Runs of the same seed are paired: they meet the same arrivals, so that their difference scatters less.
        """
        groups: dict[tuple[str, ...], dict[float, float]] = {}
        for row in self._rows:
            if row.get(figure) is not None:
                groups.setdefault(tuple(row[key] for key in self.values), {})[row["seed"]] = row[figure]
        if not groups:
            raise UsageError(f"no run has the figure {figure!r}", "see the keys of Sweep.rows[0]")
        first, *others = groups
        return [Difference(dict(zip(self.values, of)), _paired(groups[first], groups[of])) for of in others]


class Difference:
    """Difference of a figure to the first combination of a sweep."""

    __slots__ = ("figure", "values")

    def __init__(self, values: dict[str, str], figure: Figure) -> None:
        self.values: dict[str, str] = values
        self.figure: Figure = figure

    def __repr__(self) -> str:
        return f"Difference({self.values}, {self.figure!r})"


def _paired(base: dict[float, float], other: dict[float, float]) -> Figure:
    both = [other[seed] - value for seed, value in base.items() if seed in other]
    estimate = _native.estimate(both)
    if estimate is None:
        return Figure(None, why="no seed is in both")
    mean, half = estimate
    if half is None:
        return Figure(None, why="one seed has no interval: take more")
    return Figure(mean, mean - half, mean + half)


def _rows(point: dict[str, Any], values: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    for run in point["runs"]:
        row: dict[str, Any] = {key: point["set"].get(key, of[0]) for key, of in values.items()}
        row["seed"] = float(run["seed"])
        for part in [*run["links"], *run["flows"]]:
            row.update(_flat(part["name"], part))
        row.update(_flat("control", run.get("control", {})))
        yield row


def _flat(name: str, value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, of in value.items():
            yield from _flat(f"{name}.{key}", of)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, float(value)


def sweep(
    values: Mapping[str, Iterable[object]],
    scenario: Path,
    *,
    set: Pairs | None = None,
    keep: Path | None = None,
    on: Any = None,
    threads: int | None = None,
    progress: Progress = None,
) -> Sweep:
    """Simulates a scenario with every combination of values, such as {"link.queue": ["fifo", "pie"], "seed": range(20)}.

    Args:
        values: Values of each key; those of "seed" are consecutive numbers
        scenario: Scenario as a TOML file
        set: Values to change in all runs
        keep: Directory of finished runs: a run in it is not made again, so that a sweep can be interrupted and continued
        on: Client of dask.distributed, whose workers can read the scenario's file [default: threads of this process]
        threads: Cores to use [default: all]
        progress: True for a bar, or a function that takes a share from 0 to 1 (or None) and a text
    """
    swept = {key: [text(key, each) for each in of] for key, of in values.items() if key != "seed"}
    changed = [] if set is None else values_of("set", set)
    seeds = [int(text("seed", seed)) for seed in values.get("seed", ())]
    if seeds:
        if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
            raise UsageError("seeds are consecutive numbers", 'write "seed": range(1, 101)')
        changed.append(f"seed={seeds[0]}")
    empty = [key for key, of in swept.items() if not of]
    if empty:
        raise UsageError(f"there are no values of {empty[0]}", "give a list of at least one")
    # A single value may have commas, at which the command would divide it.
    changed += [f"{key}={of[0]}" for key, of in swept.items() if len(of) == 1]
    several = {key: of for key, of in swept.items() if len(of) > 1}
    given: dict[str, Any] = {"set": changed, "sweep": several, "seeds": len(seeds) or None, "threads": threads}
    if on is None:
        return Sweep(verbs.sim(scenario, **given, keep=keep, progress=progress), swept)
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tailback-") as scratch:
        kept = os.fspath(keep) if keep is not None else scratch
        _on_dask(on, os.fspath(scenario), given, kept)
        return Sweep(verbs.sim(scenario, **given, keep=kept, progress=progress), swept)


def _on_dask(client: Any, scenario: str, given: dict[str, Any], keep: str) -> None:
    """Makes the runs on Dask's workers, and brings their files here. A task of a killed worker is made again."""
    os.makedirs(keep, exist_ok=True)  # noqa: PTH103
    cores = sum(client.nthreads().values())
    parts = max(1, 4 * cores)
    options = {**given, "threads": 1}
    tasks = [client.submit(_part, scenario, options, f"{part + 1}/{parts}", pure=False) for part in range(parts)]
    for task in tasks:
        for name, content in task.result().items():
            whole = os.path.join(keep, name)  # noqa: PTH118
            with open(f"{whole}.{os.getpid()}.tmp", "wb") as file:  # noqa: PTH123
                file.write(content)
            os.replace(file.name, whole)  # noqa: PTH105


def _part(scenario: str, options: dict[str, Any], shard: str) -> dict[str, bytes]:
    """Makes one shard's runs, and returns their files by name."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="tailback-") as directory:
        verbs.sim(scenario, **options, keep=directory, shard=shard)
        found = {}
        for entry in os.scandir(directory):
            with open(entry.path, "rb") as file:  # noqa: PTH123
                found[entry.name] = file.read()
        return found
