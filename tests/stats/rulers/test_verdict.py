"""The decision table, row by row and over every combination of its inputs."""

import itertools

import pytest

from segaudit.stats.verdict import Verdict, classify, saturated

NOISE = {"collapsed": (0.2, 0.5), "unclear": (0.6, 1.3), "noisier": (1.3, 2.0), "unknown": (float("nan"), float("nan"))}


def told(**facts):
    base = {
        "trusted_significant": False,
        "other_significant": False,
        "gap_inflated": False,
        "gap_smaller": False,
        "noise": NOISE["unclear"],
        "change_significant": False,
    }
    return classify(**(base | facts))


@pytest.mark.parametrize(
    "facts,word,established,flags,why",
    [
        ({"rates_saturated": True}, "saturation", None, (), "row 0"),
        (
            {"trusted_significant": True, "other_significant": True, "gap_inflated": True},
            "false magnitude",
            None,
            (),
            "row 1",
        ),
        ({"gap_inflated": True}, "agreement", None, (), "row 2: neither verdict is significant"),
        (
            {"noise": NOISE["collapsed"], "gap_smaller": True},
            "agreement",
            None,
            ("compressed", "gap smaller"),
            "row 2 with its flags",
        ),
        ({"other_significant": True, "gap_inflated": True}, "false magnitude", None, (), "row 3a, no collapse"),
        (
            {
                "other_significant": True,
                "gap_inflated": True,
                "noise": NOISE["collapsed"],
                "phi_gap": 4.0,
                "phi_scale": 4.0,
            },
            "false magnitude",
            None,
            (),
            "row 3a, collapse, the gap weighs as much",
        ),
        (
            {
                "other_significant": True,
                "gap_inflated": True,
                "noise": NOISE["collapsed"],
                "phi_gap": 3.0,
                "phi_scale": 4.0,
                "change_significant": True,
            },
            "false confidence",
            True,
            (),
            "row 3b, collapse, the scale weighs more",
        ),
        (
            {"other_significant": True, "noise": NOISE["collapsed"]},
            "false confidence",
            False,
            ("threshold crossing",),
            "row 3b, not established",
        ),
        (
            {"other_significant": True, "noise": NOISE["collapsed"], "equivalent": True, "change_significant": True},
            "false confidence",
            True,
            ("practically equivalent",),
            "row 3b, negligible",
        ),
        ({"trusted_significant": True, "gap_smaller": True}, "masking (gap)", False, (), "row 4a"),
        (
            {"trusted_significant": True, "gap_smaller": True, "change_significant": True},
            "masking (gap)",
            True,
            (),
            "row 4a established",
        ),
        (
            {"trusted_significant": True, "gap_smaller": True, "noise": NOISE["noisier"], "change_significant": True},
            "masking (noise)",
            True,
            (),
            "row 4b, noise comes first",
        ),
        ({"trusted_significant": True}, "inconclusive", None, (), "row 5"),
        (
            {"other_significant": True, "change_significant": True},
            "inconclusive",
            None,
            ("unattributed",),
            "row 5, something changed",
        ),
        (
            {"other_significant": True, "noise": NOISE["unknown"]},
            "inconclusive",
            None,
            (),
            "an unknown interval shows nothing",
        ),
        (
            {"other_significant": True, "noise": NOISE["noisier"], "direction_reversed": True},
            "inconclusive",
            None,
            ("direction reversed",),
            "the flag of any row",
        ),
    ],
)
def test_classify__rows(facts, word, established, flags, why):
    found = told(**facts)
    assert (found.word, found.established, found.flags) == (word, established, flags), why


@pytest.mark.parametrize(
    "excess,snr,mechanism",
    [
        ((0.7, 1.3), (0.8, 1.2), "proportional compression"),
        ((0.7, 0.9), (0.8, 1.2), ""),
        ((0.7, 1.3), (1.1, 2.2), ""),
        ((0.7, 1.3), None, ""),
        (None, (0.8, 1.2), ""),
    ],
)
def test_classify__mechanism_needs_both_intervals(excess, snr, mechanism):
    found = told(other_significant=True, noise=NOISE["collapsed"], excess=excess, snr=snr)
    assert (found.word, found.mechanism) == ("false confidence", mechanism)


def test_classify__mechanism_belongs_to_false_confidence_alone():
    assert told(noise=NOISE["collapsed"], excess=(0.7, 1.3), snr=(0.8, 1.2)).mechanism == ""


# the table as a list of rows; the first that holds gives the class
TABLE = [
    ("false magnitude", lambda f: f["sg"] and f["ss"] and f["u"]),
    ("agreement", lambda f: f["sg"] == f["ss"]),
    ("false magnitude", lambda f: not f["sg"] and f["ss"] and f["u"] and (not f["c"] or f["phi"] >= 0)),
    ("false confidence", lambda f: not f["sg"] and f["ss"] and f["c"]),
    ("masking (gap)", lambda f: f["sg"] and not f["ss"] and f["dn"] and not f["i"]),
    ("masking (noise)", lambda f: f["sg"] and not f["ss"] and f["i"]),
    ("inconclusive", lambda f: True),
]


def test_classify__every_combination():
    seen = set()
    for sg, ss, e in itertools.product([False, True], repeat=3):
        for (u, dn), noise, phi in itertools.product(
            [(False, False), (True, False), (False, True)], ["collapsed", "unclear", "noisier"], [-1.0, 0.0, 1.0]
        ):
            facts = {"sg": sg, "ss": ss, "u": u, "dn": dn, "c": noise == "collapsed", "i": noise == "noisier"}
            expected = next(word for word, holds in TABLE if holds(facts | {"phi": phi}))
            found = told(
                trusted_significant=sg,
                other_significant=ss,
                gap_inflated=u,
                gap_smaller=dn,
                noise=NOISE[noise],
                change_significant=e,
                phi_gap=phi,
            )
            assert found.word == expected, facts
            needs = expected in ("false confidence", "masking (gap)", "masking (noise)")
            assert found.established == (e if needs else None), facts
            seen.add(expected)
    assert seen == {word for word, _ in TABLE}


def test_classify__raise_on_a_gap_both_larger_and_smaller():
    with pytest.raises(ValueError, match="both inflated and smaller"):
        told(gap_inflated=True, gap_smaller=True)


def test_classify__equal_facts_equal_verdict():
    assert told() == Verdict("agreement")


@pytest.mark.parametrize(
    "trusted,other,expected,why",
    [
        ([1.0, 0.9], [1.0, 1.0], True, "all pass under the other ruler only"),
        ([1.0, 1.0], [1.0, 0.9], True, "all pass under the trusted ruler only"),
        ([0.1, 0.0], [0.0, 0.0], True, "none passes under the other ruler only"),
        ([1.0, 1.0], [1.0, 1.0], False, "both saturated: nothing changed"),
        ([0.9, 0.9], [0.8, 0.8], False, "equal rates, but not at an end"),
        ([1.0, 0.0], [1.0, 1.0], True, "saturated under the other ruler, whatever the gap under the trusted one"),
    ],
)
def test_saturated__table(trusted, other, expected, why):
    assert saturated(trusted, other) == expected, why
