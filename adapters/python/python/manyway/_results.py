"""Results: reports as dicts, and frames made from them."""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from . import _native

if TYPE_CHECKING:
    import pyarrow  # type: ignore[import-untyped]

#: Columns of names, whatever the names look like.
_TEXT = {"group", "flow", "path", "link", "kind", "of", "sharing"}
#: Columns of whole numbers, and of what may be anything; all others are of doubles.
_COUNTS = {
    "point", "repetition", "seed", "bytes", "packets", "drops", "marks", "loss_events",
    "packets_sent", "packets_lost", "timeouts", "interval", "found",
}
#: As exact as the text. From pandas 3 on, that is the default.
_EXACT: Any = {} if int(pd.__version__.split(".")[0]) > 2 else {"float_precision": "round_trip"}


class Frames(Mapping[str, pd.DataFrame]):
    """Frames by name, each made when somebody asks for it."""

    def __init__(self, makers: Mapping[str, Any]) -> None:
        self._makers = dict(makers)
        self._made: dict[str, pd.DataFrame] = {}

    def __getitem__(self, name: str) -> pd.DataFrame:
        if name not in self._made:
            if name not in self._makers:
                raise KeyError(f"no frame is called {name!r}: there are {', '.join(self)}")
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def arrow(self, name: str) -> pyarrow.Table:
        """Return a frame as an Arrow table; takes the package pyarrow (``manyway[arrow]``)."""
        import pyarrow

        return pyarrow.Table.from_pandas(self[name], preserve_index=False)


class Result:
    """What came of a scenario.

    ``report`` is the object of ``manyway run --json``, as a dict. ``frames`` has the tables of
    ``manyway run --out`` and, made from the report, ``groups`` (packet and stack) or ``flows``
    (fluid). Each frame is an attribute, too: ``result.series``. Rates are in bits/s, times in
    seconds, windows and queues in packets.
    """

    report: dict[str, Any]
    frames: Frames

    def __init__(self, report: str, files: Mapping[str, bytes]) -> None:
        self.report = json.loads(report)
        self._json = report
        self._files = dict(files)
        makers: dict[str, Any] = {
            name.removesuffix(".csv"): lambda text=text: _from_csv(text)
            for name, text in files.items()
        }
        if self.level == "fluid":
            makers["flows"] = lambda: _of_points(self.report, "flows")
        elif "runs" not in makers:
            makers["groups"] = lambda: _of_points(self.report, "groups")
        self.frames = Frames(makers)

    @property
    def scenario(self) -> str:
        """The scenario's name."""
        return str(self.report["scenario"])

    @property
    def level(self) -> str:
        """What carried the runs out."""
        return str(self.report["level"])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._json, self._files)

    def _frame(self, name: str) -> pd.DataFrame:
        if name not in self.frames:
            there = ", ".join(self.frames)
            raise AttributeError(f"the {self.level} level has no frame {name!r}: there are {there}")
        return self.frames[name]

    @property
    def flows(self) -> pd.DataFrame:
        """A row for each flow of each run."""
        return self._frame("flows")

    @property
    def subflows(self) -> pd.DataFrame:
        """A row for each subflow of each run."""
        return self._frame("subflows")

    @property
    def links(self) -> pd.DataFrame:
        """A row for each named link of each run."""
        return self._frame("links")

    @property
    def transfers(self) -> pd.DataFrame:
        """A row for each complete transfer of each run, where flows have a size."""
        return self._frame("transfers")

    @property
    def series(self) -> pd.DataFrame:
        """What the scenario records over time: a row for each value."""
        return self._frame("series")

    @property
    def groups(self) -> pd.DataFrame:
        """A row for each group of flows of each point: means over the repetitions.

        A measured number is in two columns: its mean, and with ``_ci95`` at the end half the
        width of its 95 % confidence interval.
        """
        return self._frame("groups")

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write result.json and the tables into a folder, as ``manyway run --out`` does.

        They replace an older result there as a whole. Plots are left out.
        """
        where = Path(folder)
        where.mkdir(parents=True, exist_ok=True)
        # Without a result, no run was here: whatever there is, is somebody else's.
        if (where / "result.json").is_file():
            for old in where.iterdir():
                if _native.is_part(old.name) and old.is_file() and not old.is_symlink():
                    old.unlink()
        (where / "result.json").write_text(self._json + "\n")
        for name, text in self._files.items():
            (where / name).write_bytes(text)

    def __repr__(self) -> str:
        return f"<Result of {self.scenario!r} at the {self.level} level: {', '.join(self.frames)}>"


class Optimum:
    """The optimal rates of a network, epoch by epoch.

    ``report`` is the object of ``manyway optimum --json``, as a dict. Rates count headers, as
    link rates do, and are in bits/s.
    """

    report: dict[str, Any]

    def __init__(self, report: str) -> None:
        self.report = json.loads(report)

    @cached_property
    def flows(self) -> pd.DataFrame:
        """A row for each flow of each epoch."""
        return self._rows(lambda epoch: (
            {"flow": flow["name"], "rate_bps": flow["rate_bps"]} for flow in epoch["flows"]
        ))

    @cached_property
    def subflows(self) -> pd.DataFrame:
        """A row for each subflow of each epoch."""
        return self._rows(lambda epoch: (
            {"flow": flow["name"], **subflow}
            for flow in epoch["flows"] for subflow in flow["subflows"]
        ))

    @cached_property
    def links(self) -> pd.DataFrame:
        """A row for each link of each epoch, with its price."""
        return self._rows(lambda epoch: (
            {"link": link["name"], **{key: link[key] for key in link if key != "name"}}
            for link in epoch["links"]
        ))

    @property
    def remarks(self) -> list[str]:
        """What is to be known about the result."""
        return list(self.report["remarks"])

    def _rows(self, of: Any) -> pd.DataFrame:
        return pd.DataFrame([
            {"from_s": epoch["from_s"], "until_s": epoch["until_s"], **row}
            for epoch in self.report["epochs"] for row in of(epoch)
        ])


class Criteria:
    """Which design criteria laws meet.

    ``report`` is the object of ``manyway criteria --json``, as a dict.
    """

    report: dict[str, Any]

    def __init__(self, report: dict[str, Any]) -> None:
        self.report = report

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each law, by name, and a column for each criterion.

        ``True`` if it holds, ``False`` if there is a counterexample, ``None`` if undefined.
        """
        rows = self.report.get("laws", [self.report])
        names = [f"C{n}" for n in range(6)]
        table = [[row[name]["holds"] for name in names] for row in rows]
        index = pd.Index([row["law"] for row in rows], name="law")
        return pd.DataFrame(table, index=index, columns=names, dtype=object)


def _from_csv(text: bytes) -> pd.DataFrame:
    # The first line by way of pandas, as headings may be in quotes.
    columns = [str(name) for name in pd.read_csv(io.BytesIO(text), nrows=0)]
    kinds: dict[str, Any] = {name: str for name in columns if name in _TEXT}
    others = [name for name in columns if not name.startswith("set.")]
    kinds |= {name: "float64" for name in others if name not in _TEXT | _COUNTS}
    frame: pd.DataFrame = pd.read_csv(
        io.BytesIO(text),
        dtype=kinds,
        # An empty cell of a number is none; a name stays what it is.
        keep_default_na=False,
        na_values={name: [""] for name in others if name not in _TEXT},
        **_EXACT,
    )
    return frame


def _of_points(report: Mapping[str, Any], what: str) -> pd.DataFrame:
    settings = _settings(report)
    rows = []
    for number, point in enumerate(report.get("points", [report]), 1):
        head = {"point": point.get("point", number)}
        head |= {key: settings[key][number - 1] for key in settings}
        for entry in point.get(what, []):
            rows.append(head | _flat(entry))
    return pd.DataFrame(rows)


def _settings(report: Mapping[str, Any]) -> pd.DataFrame:
    """What the sweep sets at each point, as the tables' columns ``set.`` have it."""
    points = report.get("points", [report])
    keys = {key: None for point in points for key in point.get("set", {})}
    table = pd.DataFrame({
        f"set.{key}": [point.get("set", {}).get(key, "") for point in points] for key in keys
    })
    return _from_csv(table.to_csv(index=False).encode()) if keys else table


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in entry.items():
        if isinstance(value, Mapping) and "mean" in value:
            # Without a value in any run, the mean of none says nothing.
            flat[key] = value["mean"] if value["n"] else math.nan
            flat[f"{key}_ci95"] = value["ci95"]
        elif not isinstance(value, list | Mapping):
            flat[key] = value
    return flat
