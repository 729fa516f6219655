"""A watch as a page and as what may leave: sentences from numbers, and nothing from which a few patients follow."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from conftest import PROJECT
from drawn_numbers import panels_of
from exported_folder import figures_in
from leaving_numbers import against_the_rules
from scipy.special import expit

from tdrop.base import Cohort, Hidden, plain, read
from tdrop.contracts import load_network
from tdrop.data import learn_encoder, simulate, subgroups_of
from tdrop.figures import draw_evidence
from tdrop.figures.watch import LOWEST
from tdrop.report import render_watch, summarise_watch, watch_document, watch_without_counts
from tdrop.watch import ScoredPatients, WatchState, begin_watch, freeze_scale, relative_loss

NETWORK = load_network(PROJECT / "data_contracts")
#: Lakeside hides counts under 10, as for real patients; Harbour hides nothing.
HIDING, OPEN = NETWORK.site("lakeside"), NETWORK.site("harbour")
CONTRACT = NETWORK.contract_of(HIDING)
LEVEL = 0.15


def frame_of(rows, seed, population="mild"):
    return simulate(population, rows, seed=seed).drop(columns=["died_10y", "true_risk"])


ENCODER = learn_encoder(frame_of(900, 0, "source"), CONTRACT, ())


def batch(rows, seed, first, population="mild"):
    """New patients with digests from `first` on."""
    frame = frame_of(rows, seed, population)
    X = ENCODER.encode(frame, "lakeside").X
    generator = np.random.default_rng(seed)
    risk = expit(-3.0 + generator.standard_normal(rows))
    review = generator.random(rows) < 0.06
    digests = np.arange(first, first + rows, dtype="<u8")
    return ScoredPatients(
        *(digests, digests, X, risk, review, relative_loss(risk, LEVEL)),
        filled_in=generator.random(rows) < 0.05,
        set_aside=int(generator.integers(0, 4)),
        groups=subgroups_of(frame, CONTRACT),
        findings={"psa.range": int(generator.integers(0, 3))},
    )


@pytest.fixture(scope="module")
def begun():
    source = Cohort("r", np.arange(900).astype(str), tuple(f.name for f in ENCODER.features),
                    ENCODER.encode(frame_of(900, 0, "source"), "r").X)  # fmt: skip
    those = batch(400, 1, 0)
    target = Cohort("l", np.arange(400).astype(str), source.features, those.X)
    scale = freeze_scale(source, target, "logistic")
    settings = {"scale": scale, "made_for": those, "forecast_low": 0.6, "features": ENCODER.features}
    return begin_watch("lakeside", "1", "2026-01-01T00:00:00+00:00", threshold=10, **settings)


def grown(state, sizes, population="mild", seed=10):
    """The state after each of some batches; outcomes of a few patients come now and then."""
    states, first = [], 10_000
    generator = np.random.default_rng(seed)
    for number, size in enumerate(sizes):
        when = f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T00:00:00+00:00"
        state = state.add_batch(batch(size, seed + number, first, population), when)
        if number % 3 == 2:
            rows = state.known.rows[-size:]
            state = state.add_outcomes(rows, (generator.random(len(rows)) < 0.1).astype(float), when)
        first += size
        states.append(state)
    return states


def test_every_number_that_leaves_has_a_rule_whatever_the_batches(begun):
    states = grown(begun, np.random.default_rng(0).integers(1, 15, 24).tolist())
    documents = [watch_document(state, HIDING, ENCODER) for state in states]
    problems = {problem for one in documents for problem in against_the_rules("watch.json", plain(one), 10)}
    assert problems == set()
    assert documents[-1]["history"][-1]["evidence"]
    assert documents[-1]["patients"] % 10 == 0
    assert documents[0]["patients"] == 0 or isinstance(states[0].waiting, tuple)


def test_two_documents_that_left_are_ten_patients_apart_or_the_same(begun):
    states = grown(begun, [1] * 25 + [3, 12, 2, 9, 40])
    before, counted = None, begun.patients
    changes = 0
    for state in states:
        document = watch_document(state, HIDING, ENCODER)
        shown = {key: document[key] for key in ("numbers", "moved", "history", "patients")}
        if shown != before:
            came = state.patients - counted
            assert came == 0 or came >= 10 or before is None, came
            before, counted, changes = shown, state.patients, changes + 1
    assert changes >= 4


def test_thinning_leaves_only_moments_that_could_leave_before(begun):
    state, last = begun, begun
    boundaries = set()
    for number in range(450):
        last = state
        state = state.add_batch(batch(1, 5, 50_000 + number), "2026-02-01T00:00:00+00:00")
        boundaries |= {state.history[-1].number} if state.history[-1].leaves else set()
    assert len(state.history) < 450
    assert {moment.number for moment in state.history if moment.leaves} <= boundaries
    assert read(WatchState, plain(last)).left == last.left, "the record keeps what left"


def exact(state):
    """Counts that rounding changes, as text."""
    numbers = state.numbers()
    counts = {numbers.patients, numbers.outcomes, numbers.events, numbers.review, *numbers.findings.values()}
    counts |= {group.patients for group in numbers.groups.values()}
    return {str(count) for count in counts if count > 10 and count % 10}


def test_the_page_that_leaves_names_no_exact_count_and_the_sites_own_does(begun, undrawn):
    state = grown(begun, [33, 48, 61, 57], "severe")[-1]
    pages = {leaving: render_watch(state, HIDING, None, ENCODER, leaving=leaving) for leaving in (True, False)}
    words = {key: re.sub(r"<(style|script)\b.*?</\1>|<img[^>]*>|<[^>]*>", " ", page, flags=re.S)
             for key, page in pages.items()}  # fmt: skip
    tokens = {key: set(re.findall(r"(?<![\w.])\d+(?![\w.%])", text)) for key, text in words.items()}
    assert not tokens[True] & exact(state)
    assert {"199"} <= tokens[False] & exact(state)
    summary = summarise_watch(state, HIDING, ENCODER)
    assert summary.stand == "alarm"
    moved = {feature.title: feature for feature in summary.moved}
    psa = moved["PSA"]
    assert psa.unit == "ng/mL"
    assert f"PSA: {psa.now:.3g} ng/mL instead of {psa.before:.3g}" in str(psa)
    assert "sd higher" in str(psa)
    assert any(feature.share for feature in summary.moved)
    assert str(psa).split(" (")[0] in words[False]


def test_the_words_of_the_figure_say_the_same_evidence_as_the_table(begun):
    state = grown(begun, [60, 70], "severe")[-1]
    drawn = draw_evidence(state.history)
    evidence = summarise_watch(state, OPEN, ENCODER).rules[0].evidence
    assert abs(evidence) > 0.5
    assert f"further away {evidence:.1f}, alarm at 1.6" in drawn.alternative


def test_figures_that_leave_have_no_point_that_the_document_does_not_have(begun):
    state = grown(begun, [*range(5, 65, 5), *[300] * 4], "severe")[-1]
    moments = [each for each in watch_document(state, HIDING, ENCODER)["history"] if each["kind"] != "champion"]
    drawn = figures_in(render_watch(state, HIDING, None, ENCODER, leaving=True))

    def is_known(title: str, known: set[float]) -> None:
        points = [value for panel in panels_of(drawn[title]) for value in panel.y_values()]
        assert len(points) > 10, title
        assert all(min(abs(point - one) for one in known) < 1e-3 for point in points), title

    evidence = {value for moment in moments for value in moment["evidence"].values()}
    is_known("Evidence of each rule over time", {max(LOWEST, value) for value in evidence})
    means = {end for moment in moments for values in moment["means"].values() for end in values}
    is_known("Running means with intervals that hold at all times", means)
    counts = {count for moment in moments for count in (moment["review"], moment["filled_in"], moment["set_aside"])}
    rows = {count for moment in moments for count in (moment["patients"], moment["read"])}
    shares = {
        part / (whole + more) for part in counts - {None} for whole in rows - {None} if whole for more in (0, part)
    }
    is_known("Batches over time", shares)


def test_what_was_agreed_is_not_drawn_where_the_page_leaves(begun):
    """The limit follows from how many patients the model was made for."""
    state = grown(begun, [33, 48, 61])[-1]
    other = replace(state, further=replace(state.further, limit=state.further.limit + 0.05))
    pages = {leaving: [render_watch(each, HIDING, None, ENCODER, leaving=leaving) for each in (state, other)]
             for leaving in (True, False)}  # fmt: skip
    assert pages[True][0] == pages[True][1]
    assert pages[False][0] != pages[False][1]


def test_a_concept_shift_is_called_by_its_name(begun):
    state = begun.add_batch(batch(300, 3, 10_000), "2026-02-01T00:00:00+00:00")
    state = state.add_outcomes(state.known.rows[-300:], np.ones(300), "2026-03-01T00:00:00+00:00")
    summary = summarise_watch(state, OPEN, ENCODER)
    assert summary.concept_shift
    assert summary.advice[0].startswith("A concept shift")
    assert "concept shift" in watch_without_counts(state)
    assert not re.search(r"\b300\b", watch_without_counts(state))
    hidden = summarise_watch(begun.add_batch(batch(4, 3, 10_000), "2026-02"), HIDING, ENCODER, leaving=True)
    assert hidden.patients == 0
    assert not any(isinstance(rule.patients, Hidden) for rule in hidden.rules)


def test_age_bands_stand_from_the_youngest_on(begun):
    groups = list(grown(begun, [200, 200])[-1].numbers().groups)
    ages = [name.partition(": ")[2] for name in groups if name.startswith("Age")]
    assert len(ages) > 2
    assert ages[0].startswith("under"), ages
    assert ages[1:] == sorted(ages[1:]), ages
