"""Runs: the same results as the program's, whatever form the scenario has."""

import csv
import json
import os
import pathlib
import pickle
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

import manyway

SHORT = "scenarios/examples/wifi-5g.toml"
LESS = ["duration=10 s", "measure={ from = \"2 s\", interval = \"500 ms\", series = [\"rate\"] }"]


@pytest.mark.parametrize(
    ("file", "level", "sets"),
    [
        (SHORT, "packet", LESS),
        (SHORT, "stack", LESS),
        ("scenarios/levels/wvegas-fig1a.toml", "fluid", []),
        ("scenarios/overlay/fig3.toml", "flow", []),
    ],
)
def test_all_numbers_are_those_of_the_program(program, top, tmp_path, file, level, sets):
    words = [word for text in sets for word in ("--set", text)]
    printed = program("run", file, "--level", level, "--repeat", 2, "--json",
                      "--out", tmp_path / "a", *words)
    result = manyway.run(top / file, level=level, repeat=2, set=sets)
    assert result.report == json.loads(printed)
    result.save(tmp_path / "b")
    theirs = {it.name: it.read_bytes() for it in (tmp_path / "a").iterdir() if it.suffix != ".svg"}
    ours = {it.name: it.read_bytes() for it in (tmp_path / "b").iterdir()}
    assert ours.keys() == theirs.keys()
    for name in theirs:
        assert ours[name] == theirs[name], name


def test_a_dict_is_the_same_as_its_toml(two_paths, tmp_path):
    text = manyway.to_toml(two_paths)
    file = tmp_path / "two.toml"
    file.write_text(text)
    of_dict, of_text, of_file = (manyway.run(it) for it in (two_paths, text, str(file)))
    assert of_dict.report == of_text.report == of_file.report
    pd.testing.assert_frame_equal(of_dict.series, of_file.series)


def test_dicts_may_hold_numpy_and_paths(two_paths, tmp_path):
    plain = manyway.run(two_paths).report
    two_paths["repeat"] = np.int64(1)
    two_paths["paths"]["lte"]["links"] = np.array(["lte"])
    assert manyway.run(two_paths).report == plain
    two_paths["seed"] = None
    with pytest.raises(TypeError, match="seed: a scenario can't hold None"):
        manyway.run(two_paths)


def test_assignments_and_seeds(two_paths):
    swept = {**two_paths, "sweep": {"law": ["lia", "balia"]}}
    assert [point["set"]["law"] for point in manyway.run(swept).report["points"]] == ["lia", "balia"]
    once = manyway.run(swept, set={"law": "reno", "links.wifi.rate": "5 Mbps"}, seed=7, repeat=2)
    assert (once.report["seed"], once.report["repeat"]) == (7, 2)
    assert set(once.groups.law) == {"reno"}
    assert once.links.query("link == 'wifi'").load_bps.max() < 5.1e6
    spans = [{"name": "all", "from": "1 s", "until": "3 s"}]
    spanned = manyway.run(two_paths, set={"measure.spans": spans, "links.lte.loss": 0.01})
    assert "goodput_bps.all" in spanned.subflows
    with pytest.raises(TypeError, match="set takes a dict"):
        manyway.run(two_paths, set="law=reno")


def test_frames(two_paths):
    result = manyway.run(two_paths, repeat=3, keep_series=True)
    assert list(result.frames) == ["flows", "subflows", "links", "transfers", "series", "groups"]
    assert (result.scenario, result.level) == ("Two paths", "packet")
    assert len(result.flows) == 6 and len(result.subflows) == 9 and len(result.links) == 6
    # Means of the report are those of the runs.
    both = result.flows.query("flow == 'both'").goodput_bps
    row = result.groups.set_index("name").loc["both"]
    assert row.goodput_bps == pytest.approx(both.mean(), rel=1e-12)
    # Student's t for 95 % and three values.
    half = both.std() / np.sqrt(3) * 4.303
    assert row.goodput_bps_ci95 == pytest.approx(half, rel=1e-4)
    transfers = result.transfers.set_index("repetition")
    assert (transfers.bytes == 500_000).all() and (transfers.took_s > 0.2).all()
    # A flow without an end has no completion; one with an end has.
    done = result.flows.groupby("flow").completion_s.count()
    assert done.to_dict() == {"both": 0, "file": 3}
    series = result.series
    assert set(series.seed) == {1, 2, 3} and set(series.kind) == {"rate"}
    per_run = series.query("of == 'both'").groupby(["seed", "path"]).size()
    assert (per_run == 10).all()
    with pytest.raises(KeyError, match="no frame is called 'windows': there are flows, "):
        result.frames["windows"]


def test_frames_are_exact(two_paths, tmp_path):
    result = manyway.run(two_paths)
    result.save(tmp_path)
    rows = csv.DictReader((tmp_path / "subflows.csv").open())
    columns = ["goodput_bps", "share", "window_mean_packets", "rtt_mean_s"]
    exact = [[float(row[name]) for name in columns] for row in rows]
    assert result.subflows[columns].to_numpy().tolist() == exact


def test_who_was_never_there_has_no_goodput(two_paths):
    two_paths["flows"]["file"] = {"paths": ["wifi"], "stop": "1 s"}
    rows = manyway.run(two_paths, set={"measure.from": "2 s"}).groups.set_index("name")
    assert np.isnan(rows.goodput_bps["file"]) and rows.goodput_bps["both"] > 0


def test_a_result_can_be_pickled(two_paths):
    result = manyway.run(two_paths)
    again = pickle.loads(pickle.dumps(result))
    assert again.report == result.report
    pd.testing.assert_frame_equal(again.subflows, result.subflows)
    pd.testing.assert_frame_equal(again.groups, result.groups)


@pytest.mark.parametrize("level", ["packet", "fluid"])
def test_settings_are_the_same_in_all_frames(two_paths, level):
    del two_paths["flows"]["file"]
    two_paths["sweep"] = {"links.wifi.loss": [0, 0.01], "law": ["lia", "reno"]}
    result = manyway.run(two_paths, level=level)
    report = result.groups if level == "packet" else result.flows
    assert sorted(set(report["set.links.wifi.loss"])) == [0, 0.01]
    assert set(report["set.law"]) == {"lia", "reno"}
    if level == "packet":
        for name in ("set.links.wifi.loss", "set.law"):
            assert result.subflows[name].dtype == report[name].dtype


def test_points_without_a_fluid_are_told(two_paths):
    two_paths["sweep"] = {"law": ["lia", "olia"]}
    with pytest.warns(UserWarning, match="1 of 2 points have no fluid.*olia"):
        result = manyway.run(two_paths, level="fluid")
    assert not hasattr(result, "groups") and not hasattr(result, "transfers")
    with pytest.raises(AttributeError, match="the fluid level has no frame 'groups'"):
        result.groups


def test_texts_may_look_like_numbers(two_paths):
    assert manyway.run(two_paths, set={"name": "5", "about": "true"}).scenario == "5"


def test_a_saved_result_replaces_an_older_one(two_paths, tmp_path):
    mine = ["my-flows.csv", "notes.txt"]
    for name in ["transfers.csv", *mine]:
        (tmp_path / name).write_text("mine")
    result = manyway.run(two_paths)
    result.save(tmp_path)
    for name in ["packets.csv", "packets-2.csv", "rates-1.svg"]:
        (tmp_path / name).write_text("old")
    del two_paths["flows"]["file"]
    manyway.run(two_paths).save(tmp_path)
    left = sorted(it.name for it in tmp_path.iterdir())
    tables = ["flows.csv", "links.csv", "series.csv", "subflows.csv"]
    assert left == sorted(["result.json", *tables, *mine])


def test_names_stay_text(two_paths):
    flows = two_paths["flows"]
    two_paths["flows"] = {"NA": flows["both"], "12": flows["file"]}
    result = manyway.run(two_paths)
    assert list(result.flows.flow) == ["NA", "12"]
    assert not result.subflows[["flow", "path"]].isna().any().any()


def test_arrow(two_paths):
    table = manyway.run(two_paths).frames.arrow("links")
    assert table.column("link").to_pylist() == ["wifi", "lte"]
    assert str(table.schema.field("load_bps").type) == "double"


def test_the_fluid_level_has_flows(two_paths):
    del two_paths["flows"]["file"]
    result = manyway.run(two_paths, level="fluid")
    assert list(result.flows.name) == ["both"]
    together = result.subflows.goodput_bps.sum()
    assert result.flows.goodput_bps[0] == pytest.approx(together)


def test_traces_are_beside_the_base(two_paths, tmp_path):
    (tmp_path / "walk.csv").write_text("time_s,rate_bps\n0,8e6\n2,2e6\n")
    two_paths["links"]["wifi"] = {"trace": "walk.csv", "delay": "10 ms"}
    with pytest.raises(manyway.ScenarioError, match="walk.csv"):
        manyway.run(two_paths)
    result = manyway.run(two_paths, base=tmp_path)
    assert result.links.set_index("link").load_bps["wifi"] < 6e6
    with pytest.raises(ValueError, match="a file's folder is its own"):
        manyway.run(tmp_path / "x.toml", base=tmp_path)


def test_errors_are_the_programs(program, tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text('name = "x"\nduration = "1"\n[links.a]\nrat = "1 Mbps"\n')
    printed = program("run", file, "--json", ok=False)
    with pytest.raises(manyway.ScenarioError) as caught:
        manyway.run(file)
    assert isinstance(caught.value, ValueError)
    text = str(caught.value)
    assert f"{file}:4:1: links.a.rat: unknown key (did you mean" in text
    for line in text.splitlines():
        assert line in printed


def test_what_cannot_run_is_said(two_paths, top):
    with pytest.raises(manyway.ScenarioError, match="^<scenario>: duration: missing"):
        manyway.run({"name": "x"})
    with pytest.raises(ValueError, match='"fluids" is no level'):
        manyway.run(two_paths, level="fluids")
    with pytest.raises(ValueError, match="use `manyway run --level live`"):
        manyway.run(two_paths, level="live")
    with pytest.raises(manyway.ScenarioError, match=r"has no \[overlay\]"):
        manyway.run(two_paths, level="flow")
    with pytest.raises(manyway.ScenarioError, match=r"has an \[overlay\]"):
        manyway.run(top / "scenarios/overlay/fig3.toml", level="stack")
    with pytest.raises(ValueError, match="floors applies to the fluid level"):
        manyway.run(two_paths, floors=True)
    with pytest.raises(ValueError, match="threads must be at least 1"):
        manyway.run(two_paths, threads=0)
    with pytest.raises(manyway.ScenarioError, match="olia has no fluid form"):
        manyway.run(two_paths, level="fluid", set={"flows.*.law": "olia"})


def test_threads_change_nothing(two_paths):
    one, two = (manyway.run(two_paths, repeat=4, threads=n) for n in (1, 2))
    assert one.report == two.report


def test_progress_is_told_and_may_stop_the_runs(two_paths):
    told = []
    manyway.run(two_paths, repeat=50, set={"duration": "20 s"}, progress=told.append)
    assert told == sorted(told) and all(0 <= share <= 1 for share in told)
    assert told[-1] == 1

    def stop(share):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        manyway.run(two_paths, repeat=100_000, progress=stop)


def test_an_interrupt_ends_the_runs(two_paths):
    begun = time.monotonic()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    # Runs of hours.
    with pytest.raises(KeyboardInterrupt):
        manyway.run(two_paths, repeat=100_000, set={"duration": "1000 s"})
    assert time.monotonic() - begun < 60
    # And the next one is none the worse for it.
    assert manyway.run(two_paths).report["unfinished"] == 0


def test_an_interrupt_ends_a_fluid(two_paths):
    """Within a point, of which there is one."""
    two_paths["flows"]["file"] = {"paths": ["wifi"], "count": 600, "delay_step": "10 us"}
    begun = time.monotonic()
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        manyway.run(two_paths, level="fluid", set={
            "duration": "100000 s", "measure.interval": "1000 s",
        })
    assert time.monotonic() - begun < 60


def test_other_threads_go_on_meanwhile(two_paths):
    """A run doesn't hold the interpreter's lock."""
    over = threading.Event()
    turns = 0

    def turn():
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.001)

    other = threading.Thread(target=turn)
    other.start()
    manyway.run(two_paths, repeat=20, set={"duration": "20 s"})
    over.set()
    other.join()
    assert turns > 5


def test_paths_may_be_pathlikes(top):
    assert manyway.run(pathlib.Path(top / SHORT), set=LESS, repeat=1).scenario == "WiFi and 5G"
