"""What the tests share: the source tree, the program `manyway`, and a small scenario."""

import os
import pathlib
import shutil
import subprocess

import matplotlib
import pytest

TOP = pathlib.Path(__file__).resolve().parents[3]

matplotlib.use("Agg")


@pytest.fixture
def top():
    """The top folder of the source tree."""
    return TOP


@pytest.fixture
def program():
    """The program, for results to compare with; `.ci/python` names one with `research`."""
    path = os.environ.get("MANYWAY") or shutil.which("manyway")
    if path is None:
        pytest.skip("no program manyway: set MANYWAY, as .ci/python does")

    def run(*words, ok=True):
        done = subprocess.run([path, *map(str, words)], cwd=TOP, capture_output=True, text=True)
        assert (done.returncode == 0) == ok, done.stderr
        return done.stdout if ok else done.stderr

    return run


@pytest.fixture
def two_paths():
    """Two links, a flow over both and one beside it, as a dict."""
    return {
        "name": "Two paths",
        "duration": "5 s",
        "links": {
            "wifi": {"rate": "20 Mbps", "delay": "10 ms"},
            "lte": {"rate": "10 Mbps", "delay": "30 ms"},
        },
        "paths": {"wifi": {"links": ["wifi"]}, "lte": {"links": ["lte"]}},
        "defaults": {"law": "balia"},
        "flows": {
            "both": {"paths": ["wifi", "lte"]},
            "file": {"paths": ["wifi"], "size": "500 kB"},
        },
        "measure": {"series": ["rate"], "interval": "500 ms"},
    }
