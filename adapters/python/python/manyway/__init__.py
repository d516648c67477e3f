"""manyway for notebooks: multipath congestion control, simulated and computed.

Runs scenarios as ``manyway run`` does and gives the results as pandas frames; evaluates laws on
NumPy arrays; computes optima and design criteria; runs laws that are written in Python.

>>> import manyway
>>> result = manyway.run("scenarios/examples/wifi-5g.toml", repeat=2)  # doctest: +SKIP
>>> result.groups  # doctest: +SKIP
"""

from ._figures import save_figure, style
from ._laws import Law, WindowLaw, add_law, law, laws
from ._native import ScenarioError, __version__
from ._results import Criteria, Frames, Optimum, Result
from ._run import criteria, optimum, run
from ._scenario import to_toml

__all__ = [
    "Criteria",
    "Frames",
    "Law",
    "Optimum",
    "Result",
    "ScenarioError",
    "WindowLaw",
    "__version__",
    "add_law",
    "criteria",
    "law",
    "laws",
    "optimum",
    "run",
    "save_figure",
    "style",
    "to_toml",
]
