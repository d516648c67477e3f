"""Laws: those of the registry on NumPy arrays, and those written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from . import _native


def laws() -> pd.DataFrame:
    """List all laws: a row for each, by name.

    ``has_window_form`` says whether :func:`law` has its ``I_r`` and ``D_r``; ``parameters`` is a
    list of dicts with ``name``, ``default``, ``allowed`` and ``meaning``.
    """
    return pd.DataFrame(_native.laws()).set_index("name")


def law(text: str) -> WindowLaw:
    """Return a window law with its parameters, such as ``"balia"`` or ``"ewtcp:a=0.25"``."""
    return WindowLaw(text)


class WindowLaw:
    """The pair ``I_r``, ``D_r`` of a law, by the code that runs in transfers and simulations.

    All methods take arrays whose last axis is the paths of one source, and broadcast: windows in
    packets and round-trip times in seconds, both positive and finite. The result has a value for
    each path of each source.
    """

    def __init__(self, text: str) -> None:
        self._native = _native.FluidLaw(text)

    def increase(self, windows: npt.ArrayLike, rtts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``I_r``: packets added to a path's window for each acknowledged packet."""
        return _on_arrays(self._native.increase, windows, rtts)

    def decrease(self, windows: npt.ArrayLike, rtts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``D_r``: packets taken from a path's window at a loss."""
        return _on_arrays(self._native.decrease, windows, rtts)

    def phi(self, windows: npt.ArrayLike, rtts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``I_r/D_r``: the loss probability at which a path's rate stays (Peng et al.)."""
        return _on_arrays(self._native.phi, windows, rtts)

    def __reduce__(self) -> tuple[type[WindowLaw], tuple[str]]:
        return type(self), (self._native.text,)

    def __str__(self) -> str:
        return self._native.text

    def __repr__(self) -> str:
        return f"manyway.law({self._native.text!r})"


def _on_arrays(
    rule: Callable[[bytes, bytes, int], bytes], windows: npt.ArrayLike, rtts: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    w, t = np.broadcast_arrays(np.asarray(windows, np.float64), np.asarray(rtts, np.float64))
    if w.ndim == 0 or w.shape[-1] == 0:
        raise ValueError("the last axis is the paths of a source: give at least one path")
    if not all(((x > 0) & np.isfinite(x)).all() for x in (w, t)):
        raise ValueError(
            "windows (packets) and round-trip times (seconds) must be positive and finite"
        )
    values = rule(w.tobytes(), t.tobytes(), w.shape[-1])
    return np.frombuffer(values).reshape(w.shape).copy()


class Law:
    """A law written in Python, for prototypes: inherit from it, and pass the class to `add_law`.

    The packet and stack levels call it at each acknowledgement in congestion avoidance and at
    each loss event; slow start, the smallest window and timeouts are those of every law. An
    object is the law of one connection and may keep a memory. `docs/python.md` says how slow
    that is.

    These methods are optional; each is called if a class has it:

    - ``on_path_added(packet_size)``: a path came, behind the others; bytes.
    - ``on_path_removed(r)``: path r went, and the last one has taken its number.
    - ``on_acked(r, packets, rtt)``: packets were acknowledged, and the smoothed round-trip time
      is ``rtt`` seconds; also in slow start.
    - ``on_lost(r)``: a loss event, before ``decrease`` is asked.
    - ``on_spurious_loss(r)``: the last loss event was none, as the packets came late.
    """

    #: The smallest window, and slow-start threshold, in packets; above 0.
    min_ssthresh: float = 2.0

    def increase(self, windows: Sequence[float], rtts: Sequence[float], r: int) -> float:
        """``I_r``: packets added to path r's window for each acknowledged packet.

        ``windows`` (packets) and ``rtts`` (seconds) are tuples with a value for each path. A value
        beyond a million packets either way, or one that is not finite, ends the run.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method increase")

    def decrease(self, windows: Sequence[float], rtts: Sequence[float], r: int) -> float:
        """``D_r``: packets taken from path r's window at a loss event; here half of it.

        A value below 0, or one that is not finite, ends the run.
        """
        return windows[r] / 2


def add_law(name: str, make: Callable[[], Law]) -> None:
    """Give a law written in Python a name, by which scenarios can use it from now on.

    ``make`` is its class, or what else makes an object without arguments: manyway calls it for
    each connection, and when it reads a scenario with the law. A name that was added before
    stands for the new law; a built-in law can't be replaced.
    """
    about = (getattr(make, "__doc__", None) or "").strip().split("\n")[0]
    _native.add_law(name, about or "a law written in Python", make)
