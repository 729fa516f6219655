"""A rehearsal plays every labelled site as the new one, by the command line, and later reports quote it."""

from __future__ import annotations

import json

import pytest
from command import tdrop
from conftest import at, transfer

from flows.rehearse import write_contracts
from tasks.run import TransferSettings
from tdrop.base import UsageError
from tdrop.contracts import load_network
from tdrop.data import prepare
from tdrop.home import worker_processes

pytestmark = pytest.mark.usefixtures("prefect_server", "plain_reports")
QUICK = {"logistic_regression": {"refits": 5}}
SETTINGS = TransferSettings(
    methods=tuple(QUICK), method_settings=QUICK, seeds=1, trials=1, passes=10, folds=2, bootstrap=50, shares=True
)


def make_teachers(place) -> None:
    """Two targets whose outcomes are known by now teach the third."""
    for name in ("harbour", "hillside"):
        file = place.root.parent / "network" / "data_contracts" / "sites" / f"{name}.yaml"
        file.write_text(file.read_text().replace("role: target", "role: both").replace("source: registry\n", ""))
    file = file.with_name("lakeside.yaml")
    file.write_text(file.read_text().replace("source: registry\n", ""))


def test_sites_play_the_new_one_and_the_next_report_quotes_them(tiny_network):
    from flows.rehearse import rehearse_table

    place = tiny_network
    make_teachers(place)
    with at(place), worker_processes(0):
        rehearsal = rehearse_table("prostate", SETTINGS)
    assert [site.site for site in rehearsal.sites] == ["harbour", "hillside", "registry"]
    assert not rehearsal.failed
    folder = place.root / "rehearsals" / "prostate"
    page = (folder / "rehearsal.html").read_text()
    assert "Harbour Hospital" in page
    assert "forecast AUROC was off by" in page
    index = (place.root / "index.html").read_text()
    assert "forecast AUROC was off by" in index
    assert 'href="rehearsals/prostate/rehearsal.html"' in index
    transfer(place, "lakeside", SETTINGS)
    forecast = json.loads((place.latest("lakeside") / "forecast.json").read_text())
    assert {site["site"] for site in forecast["held_out"]["logistic_regression"]} == {"harbour", "hillside", "registry"}
    expected = forecast["next_site"]["logistic_regression"]
    assert expected["auroc"]["sites"] == 3
    (joined,) = [one for one in forecast["answers"] if one["quantity"] == "auroc"]
    ends = sorted((joined["by"]["blend"], joined["by"]["held_out_sites"]))
    assert ends[0] <= joined["value"] <= ends[1]
    assert joined["between"] < min(expected["auroc"]["error"], 0.08)


def test_in_a_rehearsal_no_site_learns_from_itself_and_every_outcome_is_locked(tiny_network, tmp_path):
    make_teachers(tiny_network)
    network = tiny_network.network()
    write_contracts(tiny_network, network, "prostate", tmp_path / "contracts")
    played = load_network(tmp_path / "contracts")
    assert sorted(played.sites) == ["harbour", "hillside", "registry"]
    for site in played.sites.values():
        assert site.name not in [source.name for source in played.sources_of(site)]
        assert site.labels is not None
        assert site.labels_in_extract == "drop"
        rows = prepare(site, played, home=tiny_network.root).frame
        assert len(rows)
        assert not set(played.contract_of(site).outcome.columns) & set(rows), "the outcome is in the label file alone"


def test_too_few_labelled_sites_are_one_sentence(tiny_network, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    with pytest.raises(UsageError, match="at least 2 labelled sites of table 'prostate', and there are 1"):
        tdrop("rehearse", "--contracts", tiny_network.contracts)
