"""One style, and files for papers."""

import shutil

import matplotlib
import matplotlib.pyplot as plt

import manyway


def test_figures_are_written_for_papers(tmp_path):
    with matplotlib.rc_context():
        manyway.style()
        assert list(plt.rcParams["figure.figsize"]) == [3.5, 2.2]
        assert plt.rcParams["pdf.fonttype"] == 42
        figure, axes = plt.subplots()
        axes.plot([0, 1], [0, 1], label="one")
        axes.legend()
        files = manyway.save_figure(figure, tmp_path / "fig.1")
        again = manyway.save_figure(figure, tmp_path / "fig.2")
        plt.close(figure)
    assert files[0] == tmp_path / "fig.1.pdf"
    pdf = files[0].read_bytes()
    assert pdf.startswith(b"%PDF") and b"/FontFile2" in pdf
    # The same figure is the same file.
    assert again[0].read_bytes() == pdf
    latex = shutil.which("pdflatex") is not None
    assert [file.suffix for file in files] == [".pdf", ".pgf"][: 1 + latex]


def test_the_style_has_a_name():
    with matplotlib.style.context("manyway.manyway"):
        assert plt.rcParams["font.size"] == 8
