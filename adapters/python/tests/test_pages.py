"""What the book shows of Python runs, and so do the notebooks."""

import pathlib
import re
import time

import nbformat
import pytest
from nbclient import NotebookClient

import manyway

HERE = pathlib.Path(__file__).resolve().parent
NOTEBOOKS = sorted((HERE.parent / "notebooks").glob("*.ipynb"))


def test_the_page_of_the_book_runs(top, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scenarios").symlink_to(top / "scenarios")
    page = (top / "docs/python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 5
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


def test_the_page_names_all_there_is(top):
    page = (top / "docs/python.md").read_text()
    missing = [name for name in manyway.__all__ if not name.startswith("_") and name not in page]
    assert missing == []


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_run(file, tmp_path):
    notebook = nbformat.read(file, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code), \
        "clear the outputs before you commit"
    begun = time.monotonic()
    # As somebody does who opened it in its folder; figures go to a folder of their own.
    metadata = {"path": str(file.parent)}
    done = NotebookClient(notebook, timeout=170, resources={"metadata": metadata}).execute()
    print(f"{file.stem}: {time.monotonic() - begun:.1f} s")
    kinds = {kind for cell in done.cells for output in cell.get("outputs", [])
             for kind in output.get("data", {})}
    assert {"text/html", "image/png"} <= kinds


def test_there_are_three():
    assert [file.stem for file in NOTEBOOKS] == ["compare-two-laws", "your-own-law", "your-own-trace"]
