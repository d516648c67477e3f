"""What the program's commands run, optimum and criteria do."""

from __future__ import annotations

import json
import operator
import os
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import SupportsIndex

from . import _native
from ._laws import WindowLaw
from ._results import Criteria, Optimum, Result
from ._scenario import Assignments, Scenario, source


def run(
    scenario: Scenario,
    *,
    level: str = "packet",
    set: Assignments | None = None,
    seed: int | None = None,
    repeat: int | None = None,
    threads: int | None = None,
    keep_series: bool = False,
    floors: bool = False,
    base: str | os.PathLike[str] | None = None,
    progress: Callable[[float], object] | None = None,
) -> Result:
    """Run a scenario as ``manyway run`` does, with the same numbers to the last bit.

    Parameters
    ----------
    scenario
        A scenario file, the text of one, or a dict with the same keys.
    level
        ``"packet"``, ``"stack"``, ``"fluid"``, or ``"flow"`` of a scenario with an ``[overlay]``.
    set
        Other values for some keys: ``{"law": "balia", "links.wifi.rate": "10 Mbps"}``. If the
        scenario sweeps a key, every point gets this value.
    seed, repeat
        The seed of the first repetition, and the number of repetitions of each point.
    threads
        Runs that go on at the same time; by default as many as there are cores. Laws written in
        Python run one after the other.
    keep_series
        Keep the series of every repetition, not only of each point's first.
    floors
        Give the fluid level the senders' smallest windows.
    base
        The folder of the files that a text or a dict names, such as traces; by default the
        working directory.
    progress
        Called with the share that is done, 0 to 1, some 20 times a second, and with 1 at the end.

    Raises
    ------
    ScenarioError
        If the scenario can't be run.
    KeyboardInterrupt
        At Ctrl-C: the runs under way end soon.

    Warns
    -----
    UserWarning
        If the fluid level can't compute some of the points; their ``error`` in the report says why.
    """
    settings = [f"{key}={value}" for key, value in (("seed", seed), ("repeat", repeat))
                if value is not None]
    given = source(scenario, set, base)
    given.assignments.extend(settings)
    if threads is not None and threads < 1:
        raise ValueError("threads must be at least 1")
    report, files = _native.run(given, level, threads, keep_series, floors, progress)
    result = Result(report, files)
    points = result.report.get("points", []) if result.level == "fluid" else []
    errors = [point["error"] for point in points if "error" in point]
    if errors:
        message = f"{len(errors)} of {len(points)} points have no fluid, such as: {errors[0]}"
        warnings.warn(message, stacklevel=2)
    return result


def optimum(
    scenario: Scenario,
    *,
    utility: str = "log",
    at: str | float | None = None,
    set: Assignments | None = None,
    base: str | os.PathLike[str] | None = None,
) -> Optimum:
    """Compute the optimal rates of a scenario's flows, and the prices of its links.

    Parameters
    ----------
    scenario, set, base
        As of :func:`run`.
    utility
        ``"log"`` (proportional fairness), ``"alpha=NUMBER"``, ``"max-min"`` or ``"throughput"``.
    at
        Compute the optimum at this time only, in seconds or as text such as ``"150 s"``. By
        default there is one for each epoch, in which no flow comes or goes and no link changes.
    """
    # Without an exponent, which times don't have.
    when = at if at is None or isinstance(at, str) else f"{Decimal(repr(float(at))):f} s"
    return Optimum(_native.optimum(source(scenario, set, base), utility, when))


def criteria(
    law: str | WindowLaw | None = None,
    *,
    paths: SupportsIndex | tuple[SupportsIndex, SupportsIndex] | None = None,
    rtts: str = "100 ms",
    samples: int = 2000,
    seed: int = 1,
) -> Criteria:
    """Evaluate which of the design criteria C0 to C5 of Peng et al. a law meets.

    Parameters
    ----------
    law
        A window law with its parameters, or ``"max"``, the paper's fluid of LIA. Without one:
        the laws of the paper's Table I.
    paths
        Number of paths of the source, or the smallest and the largest; by default 2 to 8.
    rtts
        Round-trip times: one for all paths, a range to draw from such as ``"10 ms..300 ms"``, or
        one for each path, separated by commas.
    samples, seed
        Number of random points, at least 1, and their seed.

    Raises
    ------
    KeyboardInterrupt
        At Ctrl-C.
    """
    if not 1 <= samples <= 1_000_000:
        raise ValueError("samples must be from 1 to 1,000,000")
    count = None
    if paths is not None:
        ends = paths if isinstance(paths, tuple | list) else (paths,)
        count = "..".join(str(operator.index(end)) for end in ends)
    name = None if law is None else str(law)
    return Criteria(json.loads(_native.criteria(name, count, rtts, samples, seed)))
