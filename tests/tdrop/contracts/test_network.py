# ruff: noqa: E501 - one case a line reads best
"""Broken YAML is refused with its file, its line and a suggestion; sound YAML gives stable digests."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from tdrop.base import ContractError, UsageError
from tdrop.contracts import Column, load_network, parse_site, parse_yaml
from tdrop.data import as_labels

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "data_contracts", tmp_path / "data_contracts")
    return tmp_path / "data_contracts"


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's contracts, for tests that write the file that they change anew each time."""
    return Path(shutil.copytree(ROOT / "data_contracts", tmp_path_factory.mktemp("network") / "data_contracts"))


def change(path: Path, old: str, new: str) -> int:
    """Replaces text in a file and returns the line it was on."""
    content = path.read_text()
    assert content.count(old) == 1, old
    path.write_text(content.replace(old, new))
    return content[: content.index(old)].count("\n") + 1


def test_the_demo_network_is_whole(folder: Path) -> None:
    network = load_network(folder)
    assert [site.name for site in network.targets] == ["ferryside", "harbour", "hillside", "lakeside"]
    for site in network.targets:
        assert [own.name for own in network.sources_of(site)] == ["registry", "riverside", "southgate"]
    assert all(site.simulated and "simulated" in site.title for site in network.sites.values())
    assert [site.name for site in network.targets if not site.disclosure.exempt] == ["ferryside", "lakeside"]
    contract = network.contract_of(network.site("harbour"))
    assert contract.id_column == "patient_id"
    assert contract.label_columns == ("died_10y",)
    assert [column.name for column in contract.features] == [
        "age", "psa", "grade_group", "stage", "comorbidity", "treatment"]  # fmt: skip
    decision = network.site("harbour").decision
    assert (decision.risk_level, decision.threshold) == (0.15, 0.15)
    assert (decision.interval_level, decision.capacity) == (0.95, 0.1)


TABLE, HARBOUR, HILLSIDE = "tables/prostate.yaml", "sites/harbour.yaml", "sites/hillside.yaml"
BROKEN = [
    ("unknown_key", TABLE, "    plausible: [35, 100]", "    plausable: [35, 100]", "unknown key 'plausable'; did you mean 'plausible'?"),
    ("unknown_nested_key", TABLE, "{budget: 0.02, policy: impute}", "{buget: 0.02}", "unknown key 'buget'; did you mean 'budget'?"),
    ("unknown_site_key", HARBOUR, "role: target", "roll: target", "unknown key 'roll'; did you mean 'role'?"),
    ("missing_key", HARBOUR, "title: Harbour Hospital (simulated)\n", "", "needs the key 'title'"),
    ("bad_type", TABLE, "    type: binary\n    missing: {budget: 0.05", "    type: binery\n    missing: {budget: 0.05",
     "columns.comorbidity.type is 'binery', expected .*did you mean 'binary'"),
    ("bad_range", TABLE, "[18, 120]", "[120, 18]", "columns.age.range: the low end 120 is above the high end 18"),
    ("text_in_range", TABLE, "[18, 120]", "[young, old]", "columns.age.range.low: expected a number, got 'young'"),
    ("three_numbers", TABLE, "[18, 120]", "[18, 60, 120]", r"a range is \[low, high\], got 3"),
    ("plausible_outside_possible", TABLE, "[35, 100]", "[35, 130]", "plausible range must lie within the possible"),
    ("no_categories", TABLE, "    categories: [T1, T2, T3, T4]\n", "", "needs at least two categories"),
    ("category_twice", TABLE, "[T1, T2, T3, T4]", "[T1, T2, T2, T4]", "a category is listed twice"),
    ("title_of_nothing", TABLE, "{none: no radical treatment,", "{nope: no radical treatment,", "'nope' is no category; did you mean 'none'"),
    ("unit_of_category", TABLE, "    type: binary\n    missing: {budget: 0.05", "    type: binary\n    unit: kg\n    missing: {budget: 0.05",
     "a binary column has no unit"),
    ("log_below_zero", TABLE, "[0, 10000]", "[-5, 10000]", r"transform log means log\(1 \+ value\)"),
    ("two_ids", TABLE, "    title: Age\n    type", "    title: Age\n    role: id\n    type", "exactly one column of role id, got 2"),
    ("column_twice", TABLE, "  - name: age\n", "  - name: psa\n", "column 'psa' is defined 2 times"),
    ("rule_of_unknown_column", TABLE, "{column: treatment, is: prostatectomy}", "{column: treatmant, is: prostatectomy}",
     "column 'treatmant' is not defined; did you mean 'treatment'"),
    ("rule_of_unknown_category", TABLE, "{column: stage, below: T4}", "{column: stage, below: T5}", "'T5' is no category of 'stage'"),
    ("rule_without_order", TABLE, "{column: stage, below: T4}", "{column: treatment, below: hormone}", "is categorical and has no order"),
    ("rule_with_two_tests", TABLE, "{column: stage, below: T4}", "{column: stage, below: T4, is: T1}", "exactly one of is, .* got 2"),
    ("rule_of_word", TABLE, "{column: stage, below: T4}", "{column: psa, below: high}", "compared with 'high', which is not a number"),
    ("person_of_nothing", TABLE, "version: 1", "version: 1\nperson: patients_id", "column 'patients_id' is not defined; did you mean 'patient_id'"),
    ("person_of_feature", TABLE, "version: 1", "version: 1\nperson: age", "column 'age' holds the persons and must have role ignored, not feature"),
    ("person_of_outcome", TABLE, "version: 1", "version: 1\nperson: died_10y", "must have role ignored, not label"),
    ("person_of_id", TABLE, "version: 1", "version: 1\nperson: patient_id", "must have role ignored, not id"),
    ("outcome_of_feature", TABLE, "  column: died_10y", "  column: comorbidity", "must have role label, not feature"),
    ("outcome_of_nothing", TABLE, "  column: died_10y", "  column: died_10yrs", "column 'died_10yrs' is not defined; did you mean 'died_10y'"),
    ("positive_of_nothing", TABLE, "  positive: 1", "  positive: dead", "positive 'dead' is no label of 'died_10y': 0, 1"),
    ("bad_horizon", TABLE, "horizon: 10 years", "horizon: ten years", "a horizon is a number and a unit"),
    ("cuts_of_category", TABLE, "    title: Clinical T stage\n    column: stage", "    column: stage\n    cuts: [1, 2]", "cuts are for numbers"),
    ("too_few_labels", TABLE, "labels: [under 65, 65 to 74, 75 and over]", "labels: [young, old]", "2 cuts make 3 bands, got 2"),
    ("bad_yaml", TABLE, "title: Age\n    type", "title: 'Age\n    type", "not valid YAML"),
    ("key_twice", TABLE, "    title: Age\n    type", "    title: Age\n    title: Years\n    type", "key 'title' is given twice"),
    ("bad_name", TABLE, "name: prostatectomy_below_t4", "name: prostatectomy below t4", "use letters, digits and underscores"),
    ("share_above_one", TABLE, "budget: 0.15", "budget: 15", "less than or equal to 1"),
    ("no_table", HARBOUR, "table: prostate", "table: prostrate", "no table 'prostrate'; did you mean 'prostate'"),
    ("no_source", HARBOUR, "role: target", "role: target\nsource: registri", "no site 'registri'; did you mean 'registry'"),
    ("source_is_target", HARBOUR, "role: target", "role: target\nsource: lakeside", "'lakeside' is itself a target"),
    ("own_source", HARBOUR, "role: target", "role: target\nsources: [registry, harbour]", "'harbour' cannot learn from itself"),
    ("source_twice", HARBOUR, "role: target", "role: target\nsources: [registry, registry]", "sources names a site twice"),
    ("source_and_sources", HARBOUR, "role: target", "role: target\nsource: registry\nsources: [registry]", "give one of the two keys"),
    ("rename_to_nothing", HILLSIDE, "Age_months: age", "Age_months: agee", "has no column 'agee'; did you mean 'age'"),
    ("renamed_twice", HILLSIDE, "Age_months: age", "Age_months: psa", "2 columns of the extract are renamed to 'psa'"),
    ("unit_of_nothing", HILLSIDE, "  age: months", "  agee: months", "has no column 'agee'"),
    ("unit_without_unit", HILLSIDE, "  age: months", "  stage: months", "column 'stage' has no unit"),
    ("map_to_nothing", HILLSIDE, "ADT: hormone", "ADT: hormones", "'hormones' is no category of 'treatment'.*did you mean 'hormone'"),
    ("exempt_without_reason", HARBOUR, "simulated: true", "simulated: false", "disclosure.exempt is for sites that are"),
    ("no_location", HARBOUR, 'location: "{home}/demo/harbour.csv"\n', "", "a csv reader needs a location"),
    ("bad_schedule", HARBOUR, 'schedule: "0 5 * * 1"', "schedule: every monday", "a cron line of five fields"),
    ("bad_level", HARBOUR, "role: target", "role: target\ndecision: {risk_level: 15}", "decision.risk_level: .*less than 1"),
    ("other_name", HARBOUR, "table: prostate", "table: prostate\nname: harbor", "name is 'harbor' but the file is harbour.yaml"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "old", "new", "says"), [pytest.param(*case[1:], id=case[0]) for case in BROKEN])
def test_broken_yaml_is_refused_with_its_line(folder: Path, file: str, old: str, new: str, says: str) -> None:
    line = change(folder / file, old, new)
    with pytest.raises(ContractError, match=says) as caught:
        load_network(folder)
    sentence = str(caught.value)
    assert "\n" not in sentence
    place = re.match(rf"{re.escape(str(folder / file))}:(\d+): ", sentence)
    assert place, sentence
    # A missing key has no line of its own; a list item is named by its first line.
    assert abs(int(place.group(1)) - line) <= 12 or "needs the key" in sentence or "a target site" in sentence


@pytest.mark.parametrize(("name", "line"), [("unknown_key", 0), ("bad_range", 0), ("key_twice", 1), ("no_table", 0),
                                            ("map_to_nothing", 0)])  # fmt: skip
def test_the_line_is_the_very_line(folder: Path, name: str, line: int) -> None:
    _, file, old, new, _ = next(case for case in BROKEN if case[0] == name)
    expected = change(folder / file, old, new) + line
    with pytest.raises(ContractError, match=rf":{expected}: "):
        load_network(folder)


def test_several_problems_are_counted(folder: Path) -> None:
    change(folder / HARBOUR, "role: target", "roll: target")
    change(folder / HARBOUR, "title: Harbour Hospital (simulated)\n", "")
    with pytest.raises(ContractError, match=r"\(and 2 more\)"):
        load_network(folder)


@pytest.mark.parametrize(("content", "says"), [
    (b"", "expected `key: value` lines, got nothing"), (b"- a\n- b\n", "got a list"), (b"hello", "got a single value"),
    (b"\xff\xfe\x00", "not UTF-8"), (b"a: &x [*x]\n", "harbour.yaml"), (b"title: !!python/object:os.system x\n", "a tag such as"),
    (b"x: " + b"y" * 1_100_000, "larger than"),
])  # fmt: skip
def test_files_that_are_no_contract(folder: Path, content: bytes, says: str) -> None:
    (folder / HARBOUR).write_bytes(content)
    with pytest.raises(ContractError, match=says):
        load_network(folder)


def test_a_folder_that_is_no_network(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="expected a folder with `tables/` and `sites/`"):
        load_network(tmp_path)


def test_unknown_names_get_a_suggestion(folder: Path) -> None:
    network = load_network(folder)
    with pytest.raises(UsageError, match=r"no site 'harbor' .*did you mean 'harbour'"):
        network.site("harbor")
    with pytest.raises(UsageError, match=r"no table 'prostrate'.*did you mean 'prostate'"):
        network.contract("prostrate")


def test_the_strictest_rule_of_disclosure_of_a_site_and_its_real_sources_holds(folder: Path) -> None:
    """A report of a simulated or public site also has numbers of the patients who taught it."""
    assert load_network(folder).site("harbour").disclosure.exempt
    change(folder / "sites/registry.yaml", "disclosure: {exempt: true}", "disclosure: {threshold: 20}")
    assert load_network(folder).site("harbour").disclosure.exempt, "the source is simulated"
    change(folder / "sites/registry.yaml", "simulated: true", "simulated: false")
    network = load_network(folder)
    rules = {name: network.site(name).disclosure for name in ("registry", "harbour", "lakeside")}
    assert {name: (rule.exempt, rule.threshold) for name, rule in rules.items()} == dict.fromkeys(rules, (False, 20))


def test_words_stay_words(folder: Path) -> None:
    maps = load_network(folder).site("hillside").categories
    assert maps["comorbidity"] == {"no": "0", "yes": "1"}
    assert maps["stage"]["1"] == "T1"
    assert load_network(folder).site("hillside").codes_of("psa") == {"-9"}


def test_digests_follow_content_not_form(folder: Path) -> None:
    network = load_network(folder)
    before = {site.name: network.digest_of(site) for site in network.sites.values()}
    path = folder / HARBOUR
    path.write_text("# a remark\n" + path.read_text().replace("{kind: csv}", "\n  kind: csv"))
    again = load_network(folder)
    assert {site.name: again.digest_of(site) for site in again.sites.values()} == before
    change(path, "{home}/demo/harbour.csv", "{home}/demo/harbour2.csv")
    changed = load_network(folder)
    after = {site.name: changed.digest_of(site) for site in changed.sites.values()}
    assert {name for name in before if before[name] != after[name]} == {"harbour"}
    change(folder / "sites/registry.yaml", "Cancer registry", "Register")
    renamed = load_network(folder)
    assert all(renamed.digest_of(site) != after[site.name] for site in renamed.targets)


def test_digests_are_the_same_on_every_machine(folder: Path) -> None:
    data = {"name": "harbour", **parse_yaml((folder / HARBOUR).read_text(), folder / HARBOUR).data}
    canonical = json.dumps(data, sort_keys=True).encode("ascii")
    assert load_network(folder).digests["sites/harbour"] == hashlib.sha256(canonical).hexdigest()


KEYS = st.sampled_from(["0", "0.0", '"0.0"', '"0"', "1", "1.0", "yes", "true", '"true"', "2", "02"])
LABELS = ("0", "0.0", "1", "1.0", "yes", "true", "2", "02")


@settings(max_examples=40)
@given(*[st.dictionaries(KEYS, st.sampled_from(["0", "1", '"0"', "0.0"]), min_size=1, max_size=3)] * 2)
def test_site_files_that_read_differently_have_other_digests(
    one_folder: Path, first: dict[str, str], second: dict[str, str]
) -> None:
    readings, text = [], (ROOT / "data_contracts" / HARBOUR).read_text()
    for labels in (first, second):
        body = "".join(f"    {key}: {to}\n" for key, to in labels.items())
        (one_folder / HARBOUR).write_text(text + f"categories:\n  comorbidity:\n{body}")
        try:
            network = load_network(one_folder)
        except ContractError:
            return
        site, column = network.site("harbour"), Column(name="comorbidity", type="binary")
        read = as_labels(pd.Series(LABELS), (), column, site.categories["comorbidity"])[0].fillna(-1).tolist()
        readings.append((read, network.digest_of(site)))
    (labels_read, digest), (other_labels, other_digest) = readings
    assert labels_read == other_labels or digest != other_digest


def test_a_contract_survives_json(folder: Path) -> None:
    contract = load_network(folder).contracts["prostate"]
    again = type(contract).model_validate(contract.model_dump(mode="json"))
    assert again == contract


def test_text_can_be_checked_before_it_is_a_file(folder: Path) -> None:
    network = load_network(folder)
    text = (folder / HARBOUR).read_text()
    assert parse_site(text, "north", network).name == "north"
    with pytest.raises(ContractError, match=r"north\.yaml:\d+: no table"):
        parse_site(text.replace("table: prostate", "table: lung"), "north", network)


def test_reading_contracts_is_light() -> None:
    code = (
        "import sys\nfrom tdrop.contracts import Contract, Site, load_network\n"
        "heavy = {'pandas', 'great_expectations', 'pint', 'scipy', 'torch', 'pyarrow', 'sqlalchemy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
