"""One style for figures, and files of them for papers."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Widths of figures in inches, of a column and of a page of a two-column paper.
COLUMN, PAGE = 3.5, 7.16


def style() -> None:
    """Use the package's style for all figures from here on; takes matplotlib (manyway[plot]).

    Text has 8 points in a figure as wide as the column of a two-column paper (3.5 inches), fonts
    are embedded, and colours differ also for colour-blind readers (Okabe and Ito).
    ``matplotlib.style.context("manyway.manyway")`` is the same for one figure.
    """
    import matplotlib.style

    matplotlib.style.use("manyway.manyway")


def save_figure(figure: Figure, name: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as NAME.pdf and, where LaTeX is installed, as NAME.pgf.

    ``\\input{NAME.pgf}`` sets its text in the paper's own font. Returns the files' names.
    """
    import matplotlib

    path = Path(name)
    kinds = ["pdf"]
    if shutil.which(str(matplotlib.rcParams["pgf.texsystem"])):
        kinds.append("pgf")
    files = [path.with_name(f"{path.name}.{kind}") for kind in kinds]
    for file in files:
        # Without a date, the same figure is the same file.
        metadata = {"CreationDate": None} if file.suffix == ".pdf" else None
        figure.savefig(file, metadata=metadata)
    return files
