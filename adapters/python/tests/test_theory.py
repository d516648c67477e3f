"""Optima and criteria: those of the program."""

import json
import os
import signal
import threading
import time

import numpy as np
import pytest

import manyway

NETWORK = "scenarios/wvegas/fig2a.toml"


def test_the_optimum_is_the_programs(program, top):
    for words, utility, at in [
        ([], "log", None),
        (["--utility", "alpha=2", "--at", "150 s"], "alpha=2", 150),
        (["--utility", "max-min", "--at", "0.5 s"], "max-min", "500 ms"),
    ]:
        printed = program("optimum", NETWORK, "--json", *words)
        ours = manyway.optimum(top / NETWORK, utility=utility, at=at)
        assert ours.report == json.loads(printed)


def test_an_optimum_by_hand():
    """A flow over both of two links with a flow over each: 1/3 and 2/3 of 3 Mbps."""
    best = manyway.optimum({
        "name": "parking lot",
        "duration": "1 s",
        "links": {name: {"rate": "3 Mbps", "delay": "1 ms"} for name in "ab"},
        "paths": {"long": {"links": ["a", "b"]}, "a": {"links": ["a"]}, "b": {"links": ["b"]}},
        "defaults": {"law": "reno"},
        "flows": {name: {"paths": [name]} for name in ("long", "a", "b")},
    })
    rates = best.flows.set_index("flow").rate_bps
    assert rates.to_dict() == pytest.approx({"long": 1e6, "a": 2e6, "b": 2e6}, rel=1e-5)
    # A price is 1/x of a flow over that link alone.
    assert list(best.links.price) == pytest.approx([0.5e-6, 0.5e-6], rel=1e-5)
    assert list(best.subflows.path) == ["long", "a", "b"]
    assert best.remarks == best.report["remarks"]


def test_wrong_optima_are_said(top):
    with pytest.raises(ValueError, match="speed"):
        manyway.optimum(top / NETWORK, utility="speed")
    with pytest.raises(manyway.ScenarioError, match="is not before the scenario's end"):
        manyway.optimum(top / NETWORK, at=1e6)
    with pytest.raises(manyway.ScenarioError, match="can't be read"):
        manyway.optimum(top / "nothing.toml")


def test_criteria_are_the_programs(program):
    printed = program("criteria", "balia", "--paths", "2..3", "--samples", 100, "--json")
    ours = manyway.criteria("balia", paths=(2, 3), samples=100)
    assert ours.report == json.loads(printed)
    table = ours.table
    assert list(table.index) == ["balia"] and list(table) == [f"C{n}" for n in range(6)]
    assert table.C1["balia"] == ours.report["C1"]["holds"]
    assert manyway.criteria(manyway.law("balia"), paths=(2, 3), samples=100).report == ours.report


def test_table_1(program):
    printed = json.loads(program("criteria", "--samples", 50, "--json"))
    table = manyway.criteria(samples=50).table
    assert list(table.index) == [law["law"] for law in printed["laws"]]
    for law in printed["laws"]:
        assert [law[name]["holds"] for name in table] == list(table.loc[law["law"]])


def test_numbers_may_be_numpys_and_small(top):
    ours = manyway.criteria("balia", paths=np.int64(2), samples=10)
    assert ours.report == manyway.criteria("balia", paths=2, samples=10).report
    pair = manyway.criteria("balia", paths=(np.int64(2), 3), samples=10)
    assert pair.report == manyway.criteria("balia", paths=(2, 3), samples=10).report
    assert manyway.optimum(top / NETWORK, at=1e-7).report["epochs"]


def test_an_interrupt_ends_criteria():
    begun = time.monotonic()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        manyway.criteria(samples=1_000_000)
    assert time.monotonic() - begun < 60


def test_wrong_criteria_are_said():
    with pytest.raises(ValueError, match="expected a number of paths"):
        manyway.criteria("lia", paths=1)
    with pytest.raises(ValueError, match="samples must be from 1"):
        manyway.criteria("lia", samples=0)
    with pytest.raises(ValueError, match="gives round-trip times of 3 paths"):
        manyway.criteria("lia", paths=2, rtts="10 ms,20 ms,30 ms")
    with pytest.raises(ValueError, match="unknown congestion control"):
        manyway.criteria("lai")
