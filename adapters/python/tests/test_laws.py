"""Laws on arrays, and laws written in Python."""

import pickle

import numpy as np
import pytest

import manyway

W = np.array([30.0, 40.0, 12.0])
T = np.array([0.1, 0.05, 0.3])


def closed_forms(w, t):
    """`I_r` and `D_r` as the papers print them, for one source."""
    x = w / t
    total = x.sum(axis=-1, keepdims=True)
    alpha = x.max(axis=-1, keepdims=True) / x
    linked = (w / t**2).max(axis=-1, keepdims=True) / total**2
    return {
        "reno": (1 / w, w / 2),
        "ewtcp:a=0.25": (0.25 / w, w / 2),
        "coupled": (w / t**2 / total**2, w / 2),
        "lia": (np.minimum(linked, 1 / w), w / 2),
        "balia": (
            w / t**2 / total**2 * (1 + alpha) / 2 * (4 + alpha) / 5,
            w / 2 * np.minimum(alpha, 1.5),
        ),
    }


@pytest.mark.parametrize("name", closed_forms(W, T))
def test_laws_are_their_closed_forms(name):
    law = manyway.law(name)
    increase, decrease = closed_forms(W, T)[name]
    np.testing.assert_allclose(law.increase(W, T), increase, rtol=1e-12)
    np.testing.assert_allclose(law.decrease(W, T), decrease, rtol=1e-12)
    np.testing.assert_allclose(law.phi(W, T), increase / decrease, rtol=1e-12)
    assert str(law) == name and repr(law) == f"manyway.law({name!r})"


def test_many_sources_at_once():
    rng = np.random.default_rng(1)
    w = rng.uniform(2, 100, (4, 5, 3))
    increase, decrease = closed_forms(w, np.broadcast_to(T, w.shape))["balia"]
    law = manyway.law("balia")
    np.testing.assert_allclose(law.increase(w, T), increase, rtol=1e-12)
    # Not contiguous, not of doubles, one number for all.
    np.testing.assert_allclose(law.decrease(w[::2, 1:], T), decrease[::2, 1:], rtol=1e-12)
    np.testing.assert_allclose(law.increase([10, 10], 0.1), law.increase([10.0, 10.0], [0.1, 0.1]))
    law.increase(W, T)[0] = 0  # A result is the caller's.


def test_what_is_no_law_is_said():
    with pytest.raises(ValueError, match='"balai" \\(did you mean "balia"\\?\\)'):
        manyway.law("balai")
    with pytest.raises(ValueError, match="olia has no fluid form"):
        manyway.law("olia")
    law = manyway.law("lia")
    for wrong in ([], 3.0):
        with pytest.raises(ValueError, match="at least one path"):
            law.increase(wrong, 0.1)
    wrong = [([1, 0], 0.1), ([1, 2], [0.1, -1]), ([np.nan, 1], 0.1), ([1, np.inf], 0.1)]
    for windows, rtts in wrong:
        with pytest.raises(ValueError, match="must be positive"):
            law.increase(windows, rtts)


def test_all_laws_are_listed():
    laws = manyway.laws()
    assert {"lia", "auto", "wvegas"} <= set(laws.index)
    assert laws.has_window_form["lia"] and not laws.has_window_form["olia"]
    (parameter,) = laws.parameters["ewtcp"]
    assert (parameter["name"], parameter["default"]) == ("a", 1.0)


class Lia(manyway.Law):
    """RFC 6356 once more."""

    def increase(self, windows, rtts, r):
        rates = [w / t for w, t in zip(windows, rtts)]
        best = max(x / t for x, t in zip(rates, rtts))
        return min(best / sum(rates) ** 2, 1 / windows[r])


@pytest.mark.parametrize("level", ["packet", "stack"])
def test_a_law_of_ones_own_runs_as_the_built_in_one(two_paths, level):
    manyway.add_law("my-lia", Lia)
    assert manyway.laws().about["my-lia"] == "RFC 6356 once more."
    own = manyway.run(two_paths, set={"law": "my-lia"}, repeat=2, level=level)
    theirs = manyway.run(two_paths, set={"law": "lia"}, repeat=2, level=level)
    assert set(own.groups.law) == {"my-lia"}
    # Sums in another order may differ in the last bits, and those change nothing.
    same = ["goodput_bps", "window_mean_packets", "packets_sent"]
    np.testing.assert_allclose(own.subflows[same], theirs.subflows[same], rtol=1e-3)


def test_it_can_be_swept_and_replaced(two_paths):
    class Timid(Lia):
        def increase(self, windows, rtts, r):
            return 0.0

        def decrease(self, windows, rtts, r):
            return windows[r]

    del two_paths["flows"]["file"]
    two_paths["links"]["wifi"]["loss"] = two_paths["links"]["lte"]["loss"] = 0.002
    two_paths["sweep"] = {"law": ["lia", "replaced"]}
    manyway.add_law("replaced", Lia)
    lia, same = manyway.run(two_paths, set={"duration": "20 s"}).groups.goodput_bps
    assert same == pytest.approx(lia, rel=1e-3)
    manyway.add_law("replaced", Timid)
    lia, timid = manyway.run(two_paths, set={"duration": "20 s"}).groups.goodput_bps
    assert timid < 0.5 * lia


def test_hooks_are_called_with_what_they_are_for(two_paths):
    heard = []

    class Listening(Lia):
        min_ssthresh = 3.0

        def __init__(self):
            self.added, self.acked, self.lost = [], 0.0, 0
            heard.append(self)

        def on_path_added(self, packet_size):
            self.added.append(packet_size)

        def on_acked(self, r, packets, rtt):
            assert r in (0, 1) and 0.01 < rtt < 5
            self.acked += packets

        def on_lost(self, r):
            self.lost += 1

    manyway.add_law("listening", Listening)
    del two_paths["flows"]["file"]
    result = manyway.run(two_paths, set={"law": "listening", "links.wifi.loss": 0.001})
    (law,) = [law for law in heard if law.acked]
    assert len(law.added) == 2 and set(law.added) == {1500}
    assert law.lost == result.subflows.loss_events.sum() > 0
    assert law.acked == pytest.approx(result.subflows.packets_sent.sum(), rel=0.05)


def test_its_errors_end_the_run(two_paths):
    class Failing(Lia):
        def decrease(self, windows, rtts, r):
            raise ZeroDivisionError("in the law")

    class NoNumber(Lia):
        def decrease(self, windows, rtts, r):
            return float("nan")

    class NoInit(Lia):
        def __init__(self):
            raise OSError("no file")

    lossy = {"links.wifi.loss": 0.01, "law": "failing"}
    manyway.add_law("failing", Failing)
    with pytest.raises(ZeroDivisionError, match="in the law"):
        manyway.run(two_paths, set=lossy, repeat=1000)
    manyway.add_law("failing", NoNumber)
    with pytest.raises(ValueError, match="the law failing gave NaN for path 0"):
        manyway.run(two_paths, set=lossy, repeat=1000)
    manyway.add_law("failing", NoInit)
    with pytest.raises(OSError, match="no file"):
        manyway.run(two_paths, set=lossy)
    manyway.add_law("failing", manyway.Law)
    with pytest.raises(NotImplementedError, match="Law has no method increase"):
        manyway.run(two_paths, set={"law": "failing", "duration": "20 s", "links.lte.loss": 0.01})


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("decrease", -1.0, "gave -1 for path 0 as decrease: it must be at least 0 packets"),
        ("increase", 1e7, "as increase: it must be at most 1000000 packets"),
        ("increase", -1e7, "as increase: it must be at least -1000000 packets"),
        ("min_ssthresh", 0.0, "has a min_ssthresh of 0: it must be above 0"),
        ("min_ssthresh", float("nan"), "has a min_ssthresh of NaN: it must be above 0"),
        ("min_ssthresh", float("inf"), "has a min_ssthresh of inf: it must be above 0"),
    ],
)
def test_values_out_of_range_end_the_run(two_paths, method, value, message):
    def rule(self, windows, rtts, r):
        return value

    made = type("Wrong", (Lia,), {method: value if method == "min_ssthresh" else rule})
    manyway.add_law("wrong", made)
    with pytest.raises(ValueError, match=message):
        manyway.run(two_paths, set={"links.wifi.loss": 0.01, "law": "wrong"})


def test_its_errors_end_an_overlay(top):
    class Failing(Lia):
        def on_acked(self, r, packets, rtt):
            raise ZeroDivisionError("in the law")

    manyway.add_law("failing", Failing)
    less = {"law": "failing", "overlay.sources": 4, "overlay.intervals": 30, "overlay.judged": 10}
    with pytest.raises(ZeroDivisionError, match="in the law"):
        manyway.run(top / "scenarios/overlay/packets.toml", set=less, repeat=2, threads=2)


def test_a_law_added_again_has_its_new_text(two_paths):
    class Other(Lia):
        """Something else."""

    manyway.add_law("again", Lia)
    manyway.add_law("again", Other)
    assert manyway.laws().about["again"] == "Something else."


def test_a_window_law_can_be_pickled():
    law = pickle.loads(pickle.dumps(manyway.law("ewtcp:a=0.25")))
    np.testing.assert_array_equal(law.phi(W, T), manyway.law("ewtcp:a=0.25").phi(W, T))


def test_names_of_laws():
    with pytest.raises(ValueError, match="there is a law lia already"):
        manyway.add_law("lia", Lia)
    with pytest.raises(ValueError, match="can't be the name of a law"):
        manyway.add_law("My law", Lia)


def test_it_has_no_fluid(two_paths):
    manyway.add_law("my-lia", Lia)
    with pytest.raises(manyway.ScenarioError, match="my-lia has no fluid form"):
        manyway.run(two_paths, level="fluid", set={"law": "my-lia"})
