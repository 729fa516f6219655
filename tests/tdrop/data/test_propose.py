"""One command proposes a site: every guess is marked, and the proposal can be validated at once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tdrop.base import ContractError, DataError, UsageError
from tdrop.contracts import Column, Contract, Network, parse_site
from tdrop.data import closest, not_recorded, prepare, prepare_frame, propose_site, split_words, unit_in


def other_shape(plain: pd.DataFrame) -> pd.DataFrame:
    age = (plain["age"].astype(float) * 12).round().astype(int).astype(str)
    psa = plain["psa"].str.replace(".", ",").mask(plain.index % 9 == 0, "-9")
    return pd.DataFrame(
        {
            "Patient-Nr": plain["patient_id"],
            "Age (months)": age,
            "PSA_ug_L": psa,
            "GradeGroup": plain["grade_group"],
            "cT": plain["stage"].str[1],
            "Charlson_ge1": plain["comorbidity"].map({"0": "no", "1": "yes"}),
            "Therapy": plain["treatment"].replace({"none": "AS", "prostatectomy": "RP", "radiotherapy": "RT"}),
            "Ward": "7b",
        }
    )


def test_a_file_in_another_shape_is_usable_at_once(
    network: Network, prostate: Contract, patients: Any, tmp_path: Path
) -> None:
    other_shape(patients(300)).to_csv(tmp_path / "north.csv", sep=";", index=False, encoding="latin-1")
    text = propose_site("north", tmp_path / "north.csv", prostate, network)
    site = parse_site(text, "north", network)
    assert (site.role, site.source, site.location) == ("target", "registry", "north.csv")
    assert site.units == {"age": "months", "psa": "ug/L"}
    assert site.codes_of("psa") == {"-9"}
    assert site.reader.options == {"separator": ";", "decimal": ","}
    prepared = prepare(site, network, home=tmp_path)
    assert not prepared.validation.stopped
    assert prepared.validation.used == 300
    pd.testing.assert_series_equal(prepared.frame["age"], patients(300)["age"].astype(float), atol=0.05)
    assert "# note: not used: Ward" in text


def test_a_hospital_that_does_not_record_a_feature_is_usable_without_it(
    network: Network, prostate: Contract, patients: Any, tmp_path: Path
) -> None:
    patients(300).drop(columns="comorbidity").to_csv(tmp_path / "north.csv", index=False)
    text = propose_site("north", tmp_path / "north.csv", prostate, network)
    site = parse_site(text, "north", network)
    assert site.not_recorded == ("comorbidity",)
    assert "# guess (likely): no unused column could hold it" in text
    source = prepare_frame(patients(300, 1), prostate, network.site("registry")).frame
    prepared = prepare(site, network, home=tmp_path, source=source)
    assert not prepared.validation.stopped
    assert [finding.severity for finding in prepared.validation.findings if finding.column == "comorbidity"] == ["info"]
    assert not_recorded(prepared.frame, prostate) == ("comorbidity",)
    strict = prepare(site.model_copy(update={"not_recorded": ()}), network, home=tmp_path)
    assert strict.validation.stopped
    with pytest.raises(ContractError, match=r"has no feature 'comorbidty'.*comorbidity"):
        parse_site(text.replace('["comorbidity"]', '["comorbidty"]'), "north", network)


def test_every_guess_is_marked(network: Network, prostate: Contract, patients: Any, tmp_path: Path) -> None:
    other_shape(patients(300)).to_csv(tmp_path / "north.csv", sep=";", index=False)
    text = propose_site("north", tmp_path / "north.csv", prostate, network)
    headings = ("renames:", "units:", "categories:", "missing_codes:")
    plain = [line for line in text.splitlines() if "# guess" not in line and not line.lstrip().startswith("#")]
    known = (
        "title:",
        "table:",
        "role:",
        "source:",
        "location:",
        *headings,
        "  treatment:",
        "  stage:",
        "  comorbidity:",
    )
    assert [line for line in plain if not line.startswith(known)] == []


CODES = [
    ({"0": "1", "1": "2"}, {"1": "0", "2": "1"}),
    ({"0": "1.0", "1": "2.0"}, {"1": "0", "2": "1"}),
    ({"0": "nein", "1": "ja"}, {"ja": "1", "nein": "0"}),
    ({"0": "healthy", "1": "comorbidity"}, {"comorbidity": "1", "healthy": "0"}),
    ({"0": "no ", "1": "Yes"}, {}),
    ({"0": "0.0", "1": "1.0"}, {}),
    ({"0": "False", "1": "True"}, {}),
]


@pytest.mark.parametrize(("codes", "proposed"), CODES)
def test_two_codes_are_mapped_both_or_read_as_they_are(
    network: Network, prostate: Contract, patients: Any, tmp_path: Path, codes: dict[str, str], proposed: dict[str, str]
) -> None:
    plain = patients(200)
    plain.assign(comorbidity=plain["comorbidity"].map(codes)).to_csv(tmp_path / "n.csv", index=False)
    site = parse_site(propose_site("north", tmp_path / "n.csv", prostate, network), "north", network)
    assert site.categories.get("comorbidity", {}) == proposed
    frame = prepare(site, network, home=tmp_path).frame
    assert frame["comorbidity"].tolist() == plain["comorbidity"].astype(float).tolist()


def test_what_the_source_maps_is_taken_over(
    network: Network, prostate: Contract, patients: Any, tmp_path: Path
) -> None:
    source = network.site("registry").model_copy(
        update={"categories": {"comorbidity": {"1": "1", "2": "0"}, "stage": {"x": "T1"}}}
    )
    taught = Network(network.folder, network.contracts, {**network.sites, "registry": source}, network.digests)
    plain = patients(200)
    codes = plain.assign(comorbidity=plain["comorbidity"].map({"0": "2", "1": "1"}), stage="x")
    codes.to_csv(tmp_path / "n.csv", index=False)
    text = propose_site("north", tmp_path / "n.csv", prostate, taught)
    site = parse_site(text, "north", taught)
    assert site.categories == {"comorbidity": {"1": "1", "2": "0"}, "stage": {"x": "T1"}}
    assert text.count("as in the source's YAML") == 3


def test_what_cannot_be_guessed_is_left_open(
    network: Network, prostate: Contract, patients: Any, tmp_path: Path
) -> None:
    frame = patients(300).rename(columns={"psa": "lab_17"})
    frame["treatment"] = frame["treatment"].map(
        {"none": "q", "prostatectomy": "w", "radiotherapy": "e", "hormone": "r"}
    )
    frame.to_csv(tmp_path / "north.csv", index=False)
    text = propose_site("north", tmp_path / "north.csv", prostate, network)
    assert "no column of the file has a name like 'psa': is it one of lab_17?" in text
    # lab_17 may be it: nobody but a person can say that the site does without.
    assert '# not_recorded: ["psa"]' in text
    assert '# "q": one of none, prostatectomy, radiotherapy, hormone?' in text
    validation = prepare(parse_site(text, "north", network), network, home=tmp_path).validation
    assert validation.stopped
    assert any("'psa'" in finding.sentence for finding in validation.by_severity("table_stop"))


def test_the_outcome_in_a_file_is_kept_out(network: Network, prostate: Contract, patients: Any, tmp_path: Path) -> None:
    (tmp_path / "n.csv.gz").write_bytes(gzip.compress(patients().assign(died_10y=1).to_csv(index=False).encode()))
    text = propose_site("north", tmp_path / "n.csv.gz", prostate, network)
    assert "labels_in_extract: drop    # guess" in text
    prepared = prepare(parse_site(text, "north", network), network, home=tmp_path)
    assert "died_10y" not in prepared.frame
    assert prepared.validation.used == 100


def test_the_first_site_of_a_table_is_its_source(
    network: Network, prostate: Contract, patients: Any, tmp_path: Path
) -> None:
    empty = Network(network.folder, network.contracts, {}, {})
    patients().assign(died_10y=1).to_parquet(tmp_path / "n.parquet")
    text = propose_site("north", tmp_path / "n.parquet", prostate, empty)
    site = parse_site(text, "north", empty)
    assert site.role == "source"
    assert site.reader.kind == "parquet"


def test_hostile_names_cannot_break_out_of_the_yaml(
    network: Network, prostate: Contract, patients: Any, tmp_path: Path
) -> None:
    frame = patients().rename(columns={"psa": 'psa"\nrole: source\n#'})
    frame['x\n  evil: "yes"'] = "1"
    frame.to_parquet(tmp_path / "n.parquet")
    site = parse_site(propose_site("north", tmp_path / "n.parquet", prostate, network), "north", network)
    assert site.role == "target"


@pytest.mark.parametrize(
    ("name", "says"), [("../x", "use lower-case letters"), ("harbour", "there is a site 'harbour' already")]
)
def test_bad_names_are_refused(name: str, says: str, network: Network, prostate: Contract, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=says):
        propose_site(name, tmp_path / "n.csv", prostate, network)


def test_files_without_rows_are_refused(network: Network, prostate: Contract, tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("patient_id,age\n")
    with pytest.raises(DataError, match="a header but no rows"):
        propose_site("north", tmp_path / "n.csv", prostate, network)
    with pytest.raises(DataError, match="does not exist"):
        propose_site("north", tmp_path / "m.csv", prostate, network)


def test_names_are_taken_apart() -> None:
    assert split_words("PSA_ug_L") == ("psa", "ug", "l")
    assert split_words("gradeGroup (v2)") == ("grade", "group", "v2")
    assert unit_in("PSA_ug_L") == ("ug/L", ("psa",))
    assert unit_in("Age (months)") == ("months", ("age",))
    assert unit_in("months") == (None, ("months",))
    assert closest(Column(name="age", title="Age"), ["stage", "Age_at_dx", "wage"]) == "Age_at_dx"
    assert closest(Column(name="age", title="Age"), ["stage", "Alter", "agent"]) == "Alter"
    assert closest(Column(name="glu", title="Glu"), ["Glucose", "bp"]) == "Glucose"
    assert closest(Column(name="age", title="Age"), ["stage", "wage"]) is None
