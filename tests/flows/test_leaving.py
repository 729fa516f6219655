"""What really leaves a site that hides small counts: its export, MLflow's runs and Prefect's pages, read back."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from command import tdrop
from conftest import (
    PROJECT,
    cheap,
    compared_network,
    settle,
    transfer as run_transfer,
    write_tiny_network,
)
from filelock import FileLock, Timeout
from leaving_numbers import against_the_rules

from flows.audit import audit_site, run_audit
from flows.printer import Printer
from tasks.export import MARK, is_withheld, published_in, stand_in_rows
from tasks.governance import put_to_use, read_card
from tasks.publish import assemble, escape_markdown, summary_page
from tasks.recalibrate import recalibrate_site
from tasks.registry import promote_candidate
from tasks.run import last_run
from tasks.tracking import EXPERIMENTS, connect
from tdrop.base import DataError, SiteStopped
from tdrop.disclosure import Published
from tdrop.home import Workspace, digest_of
from tdrop.report import SiteSummary

SITE = "harbour"
SETTINGS = cheap("logistic_regression")
#: Neither the patients nor the rows set aside, the outcomes or the unknown ones are round numbers.
PATIENTS = 143
UNKNOWN = 4


def hide_small_counts(workspace) -> None:
    file = Path(workspace.contracts) / "sites" / f"{SITE}.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("{exempt: true}", "{threshold: 10}"), encoding="utf-8")


def keep_patients(workspace, number: int) -> None:
    """Writes an extract of the first patients, three of whom have an impossible age, and all outcomes but a few."""
    demo = workspace.root / "demo"
    whole = demo / "whole.csv"
    if not whole.exists():
        whole.write_bytes((demo / f"{SITE}.csv").read_bytes())
    rows = pd.read_csv(whole).head(number + 3)
    rows.loc[rows.index[:3], "age"] = 230
    rows.to_csv(demo / f"{SITE}.csv", index=False)
    outcomes = demo / f"{SITE}_outcomes.csv"
    pd.read_csv(outcomes).iloc[3 + UNKNOWN :].to_csv(outcomes, index=False) if number == PATIENTS else None
    settle(demo)


def transfer(workspace) -> dict:
    return run_transfer(workspace, SITE, SETTINGS, again=True)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, prefect_server):
    workspace = compared_network(tmp_path_factory.mktemp("leaving"))
    hide_small_counts(workspace)
    keep_patients(workspace, PATIENTS)
    transfer(workspace)
    return workspace


def runs_of(workspace) -> list:
    client = connect(workspace)
    experiments = [one.experiment_id for one in client.search_experiments(filter_string=EXPERIMENTS)]
    return client.search_runs(experiments, order_by=["attributes.start_time"])


def pages_of_prefect() -> dict[str, str]:
    """What Prefect holds of the site's last transfer: pages, states and logs; other tests' runs are there too."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, LogFilter
    from prefect.client.schemas.sorting import ArtifactSort, FlowRunSort, LogSort

    named = FlowRunFilter.model_validate({"name": {"any_": [f"transfer {SITE}"]}})
    with get_client(sync_client=True) as client:
        run = client.read_flow_runs(flow_run_filter=named, sort=FlowRunSort.START_TIME_DESC, limit=1)[0]
        here = FlowRunFilter.model_validate({"id": {"any_": [run.id]}})
        pages = client.read_artifacts(flow_run_filter=here, sort=ArtifactSort.CREATED_DESC, limit=200)
        states = client.read_task_runs(flow_run_filter=here, limit=200)
        written = LogFilter.model_validate({"flow_run_id": {"any_": [run.id]}})
        logs = client.read_logs(log_filter=written, sort=LogSort.TIMESTAMP_ASC, limit=200)
    return {
        **{str(page.key): str(page.data) for page in pages},
        "states": " ".join(str(one.state.message) for one in (*states, run) if one.state),
        "logs": " ".join(log.message for log in logs),
    }


def exact_counts(workspace) -> set[str]:
    """The counts of the site's own folder that are not round, from a hundred on."""
    validation = json.loads((workspace.latest(SITE) / "validation.json").read_text())
    evaluation = json.loads((workspace.latest(SITE) / "evaluation.json").read_text())
    shift = json.loads((workspace.latest(SITE) / "shift.json").read_text())
    numbers = {validation["read"], validation["used"], evaluation["patients"], evaluation["labelled"]}
    numbers |= {shift["source_rows"], shift["target_rows"], shift["domain_auroc"]["rows_fitted"]}
    return {str(number) for number in numbers if number > 100 and number % 10}


def tokens(text: str) -> set[str]:
    return {token.replace(",", "") for token in re.findall(r"(?<![\w.#-])\d[\d,]*(?![\w%]|\.\d)", text)}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_no_exact_count_reaches_prefect(workspace):
    exact = exact_counts(workspace)
    assert {str(PATIENTS), str(PATIENTS + 3), str(PATIENTS - UNKNOWN)} <= exact
    pages = pages_of_prefect()
    assert f"{SITE}-summary" in pages
    assert pages["states"]
    for name, page in pages.items():
        assert not (tokens(page) & exact), name


def test_no_exact_count_reaches_mlflow(workspace):
    exact = exact_counts(workspace)
    for run in runs_of(workspace):
        numbers = {f"{value:.6f}".removesuffix(".000000") for value in run.data.metrics.values()}
        assert not (numbers & exact), run.data.metrics
        assert not (tokens(" ".join([*run.data.params.values(), *run.data.tags.values()])) & exact)
        for name in ("rows/read", "rows/used"):
            assert run.data.metrics.get(name, 0) % 10 == 0
    files = [path for path in (workspace.root / "artifacts").rglob("*") if path.suffix in (".json", ".csv", ".html")]
    assert any(path.name == "served.json" for path in files)
    for path in files:
        text = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", path.read_text(), flags=re.S)
        assert not (tokens(text) & exact), path


def test_every_number_that_leaves_has_a_rule(workspace, tmp_path, monkeypatch):
    """Export, MLflow's metrics and files: whoever adds a number gives it a rule in `tests/leaving_numbers.py`."""
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    tdrop("export", SITE, "--folder", tmp_path / "out", "--contracts", workspace.contracts)
    files = [*(tmp_path / "out").glob("*.json"), *(workspace.root / "artifacts").rglob("report/*.json")]
    assert len(files) >= 8
    problems = [problem for file in files for problem in against_the_rules(file.name, json.loads(file.read_text()), 10)]
    tables = list((workspace.root / "artifacts").rglob("trials.csv"))
    for table in tables:
        for row in pd.read_csv(table).to_dict(orient="records"):
            shown = {name: value for name, value in row.items() if isinstance(value, float) and value == value}
            problems += against_the_rules("trials.csv", shown, 10)
    runs = runs_of(workspace)
    for run in runs:
        problems += against_the_rules("metrics", run.data.metrics, 10)
    assert tables
    assert runs
    assert sorted(set(problems)) == []


def numbers_of(value) -> set[float]:
    """Every number of a document, to the four digits that MLflow is told."""
    if isinstance(value, dict | list):
        return set().union(*map(numbers_of, value.values() if isinstance(value, dict) else value))
    return {round(float(value), 4)} if isinstance(value, int | float) else set()


def test_mlflow_and_prefect_say_no_number_of_the_site_that_its_export_does_not(workspace, tmp_path, monkeypatch):
    """What the solver finds nothing in is then all that leaves; forecasts and what is left out of fits come beside."""
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    tdrop("export", SITE, "--folder", tmp_path / "out", "--contracts", workspace.contracts)
    exported = set().union(*(numbers_of(json.loads(file.read_text())) for file in (tmp_path / "out").glob("*.json")))
    beside = ("forecast/", "choice/", "matched/", "source/", "training/")
    for run in runs_of(workspace):
        told = {name: round(value, 4) for name, value in run.data.metrics.items() if not name.startswith(beside)}
        assert {name for name, value in told.items() if value not in exported} == set()
    words = " ".join((tmp_path / "out" / name).read_text() for name in ("report.html", "details.html"))
    shown = {f"{number:.3f}" for number in exported} | tokens(re.sub(r"<[^>]+>", " ", words))
    summary = pages_of_prefect()[f"{SITE}-summary"].replace(str(workspace.root), "")
    numbers = set(re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w.])", summary.replace(",", "")))
    assert {number for number in numbers if number not in shown and number not in words} == set()


def test_titles_are_no_markup_on_prefects_pages(workspace):
    title, shown = "[Harbour](http://x) <b>*St.* `A`|B", r"\[Harbour\](http://x) \<b\>\*St.\* \`A\`\|B"
    assert escape_markdown(title) == shown
    page = summary_page(SiteSummary(SITE, title, use=title, things=(title,), method_label=title), workspace)
    assert page.count(shown) == 4
    assert title not in page


def test_a_sentence_says_no_less_than_the_number_beside_it(workspace, tmp_path, monkeypatch):
    """80 in 100 beside .783 would protect nothing."""
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    tdrop("export", SITE, "--folder", tmp_path / "out", "--contracts", workspace.contracts)
    rows = json.loads((tmp_path / "out" / "evaluation.json").read_text())["rows"]
    (auroc,) = [row["value"] for row in rows if (row["metric"], row["seed"], row["group"]) == ("auroc", "all", "all")]
    assert f"{100 * auroc:.0f} times in 100" in (tmp_path / "out" / "report.html").read_text()


def test_one_report_at_a_time_asks_whether_it_may_leave(workspace, tmp_path, monkeypatch):
    """Two of nearly the same patients, written at once, would both find that nothing like them has left."""
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    asked, objection = [], Published.objection

    def ask(published, *arguments, **options):
        with pytest.raises(Timeout):
            FileLock(published.folder / ".lock").acquire(blocking=False)
        asked.append(published)
        return objection(published, *arguments, **options)

    monkeypatch.setattr(Published, "objection", ask)
    tdrop("export", SITE, "--folder", tmp_path / "out", "--contracts", workspace.contracts)
    assert asked == [published_in(workspace)]


def test_no_digest_that_leaves_can_be_tried_by_whoever_guesses_the_rows(workspace, tmp_path, monkeypatch):
    """Whoever knows all patients but one can make every file of the store; what left must not tell the right guess."""
    manifests = list(workspace.store.glob("*/*/manifest.json"))
    guessed = {digest_of(json.loads(file.read_text())["files"]) for file in manifests}
    guessed |= {hashlib.sha256(file.read_bytes()).hexdigest() for file in (workspace.root / "demo").iterdir()}
    guessed |= {file.parent.name for file in manifests if file.parent.parent.name == "prepared"}
    # A model's own files leave as they are, and so do their digests beside them.
    frames = [file for file in workspace.store.glob("*/*/*") if file.suffix in (".parquet", ".npz", ".csv")]
    guessed |= {hashlib.sha256(file.read_bytes()).hexdigest() for file in frames}
    assert len(guessed) > 20
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    tdrop("export", SITE, "--folder", tmp_path / "out", "--contracts", workspace.contracts)
    runs = runs_of(workspace)
    left = [*pages_of_prefect().values(), *(repr(run.to_dictionary()) for run in runs)]
    left += [repr(one.tags) for one in connect(workspace).search_model_versions()]
    folders = (workspace.root / "artifacts", tmp_path / "out")
    left += [path.read_text() for folder in folders for path in folder.rglob("*")
             if path.suffix in (".json", ".csv", ".html", ".yaml", "")  and path.is_file()]  # fmt: skip
    digests = {found[:16] for text in left for found in re.findall(r"\b[0-9a-f]{24,64}\b", text)}
    assert len({run.data.tags["data_digest"] for run in runs if "data_digest" in run.data.tags}) == 1
    assert not digests & {each[:16] for each in guessed}


@pytest.mark.parametrize("lost", ["digest.key", "published"])
def test_a_home_that_lost_its_memory_lets_no_report_leave_without_a_word(workspace, tmp_path, monkeypatch, lost):
    """MLflow and the site's folder still say that a report left, and which memory knows it."""
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    run = last_run(workspace, SITE)
    whole = assemble(workspace, run)
    export = ["export", SITE, "--folder", tmp_path / "out", "--contracts", workspace.contracts]
    (workspace.root / lost).rename(tmp_path / lost)
    try:
        assert is_withheld(workspace, run, whole)
        (workspace.site(SITE) / MARK).rename(tmp_path / MARK)
        assert is_withheld(workspace, run, whole), "by MLflow alone"
        (tmp_path / MARK).rename(workspace.site(SITE) / MARK)
        words = {
            "digest.key": "was altered on disk .*; run `tdrop transfer harbour --again`",
            "published": "nothing of site 'harbour' is exported: something left of this site",
        }
        with pytest.raises(DataError, match=words[lost]):
            tdrop(*export)
    finally:
        file = workspace.root / lost
        shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        (tmp_path / lost).rename(file)
    assert not is_withheld(workspace, run, whole)


def test_one_patient_more_changes_neither_the_export_nor_the_record(workspace, tmp_path, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    tdrop("export", SITE, "--folder", tmp_path / "first", "--contracts", workspace.contracts)
    keep_patients(workspace, PATIENTS + 1)
    assert transfer(workspace).summary.patients == PATIENTS + 1
    output = tdrop("export", SITE, "--folder", tmp_path / "second", "--contracts", workspace.contracts)
    assert "fewer than 10 patients differ" in output
    assert bytes_of(tmp_path / "second") == bytes_of(tmp_path / "first")
    parents = [run for run in runs_of(workspace) if run.data.tags["kind"] == "site"]
    assert [("withheld" in run.data.tags, bool(run.data.metrics)) for run in parents] == [(False, True), (True, False)]
    children = [run for run in runs_of(workspace) if run.data.tags.get("mlflow.parentRunId") == parents[-1].info.run_id]
    assert children
    assert not any(run.data.metrics for run in children), "the source's patients may be those who differ"
    client = connect(workspace)
    assert not [file.path for run in children for file in client.list_artifacts(run.info.run_id) if "." in file.path]
    pages = pages_of_prefect()
    assert "No numbers: fewer than 10 patients differ" in pages[f"{SITE}-summary"]


def test_a_run_that_ends_early_leaves_no_number(workspace, monkeypatch):
    """Its patients are one fewer than those whose numbers left, and its label file is refused."""
    labels = workspace.root / "labels.csv"
    labels.write_text("patient_id,died_10y\nP1,perhaps\nP2,1\n")
    with pytest.raises(DataError, match="the label file for site 'harbour' was refused; why is in") as caught:
        audit_site(workspace, SITE, str(labels))
    assert not (tokens(str(caught.value).replace(str(workspace.root), "")))
    assert "2 rows" in (workspace.site(SITE) / "refused" / "labels.txt").read_text()
    monkeypatch.setenv("TDROP_HOME", str(workspace.home))
    with pytest.raises(DataError, match=r"label file of .*2 rows"):
        run_audit(SITE, labels, contracts=Path(workspace.contracts), console=Printer(as_json=True))


def test_a_stopped_site_leaves_a_letter_and_a_red_run(tmp_path, prefect_server):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import FlowRunSort

    workspace = compared_network(tmp_path)
    hide_small_counts(workspace)
    extract = workspace.root / "demo" / f"{SITE}.csv"
    pd.read_csv(extract).head(PATIENTS).drop(columns="age").to_csv(extract, index=False)
    settle(workspace.root / "demo")
    with pytest.raises(SiteStopped, match="age"):
        transfer(workspace)
    letter = pages_of_prefect()[f"{SITE}-letter"]
    assert "cannot be used as it is" in letter
    assert "age" in letter
    assert tokens(letter) <= {"1"}, "more than the table's version"
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=200)
    assert (f"transfer {SITE}", "Stopped") in {(run.name, run.state_name) for run in runs}


def test_broken_lines_are_counted_at_the_site_and_nowhere_else(tmp_path, prefect_server):
    workspace = write_tiny_network(tmp_path)
    hide_small_counts(workspace)
    extract = workspace.root / "demo" / f"{SITE}.csv"
    lines = extract.read_text().splitlines()
    extract.write_text("\n".join([*lines, *[f"{lines[1]},7"] * 4]))
    settle(workspace.root / "demo")
    with pytest.raises(DataError, match=f"the data of site '{SITE}' cannot be used; why is in") as caught:
        transfer(workspace)
    assert not tokens(re.sub("'[^']*'", "", str(caught.value)))
    assert "4 lines are not records" in (workspace.site(SITE) / "refused" / "why.txt").read_text()
    pages = pages_of_prefect()
    assert not any("not records" in page for page in pages.values())


def run_without_rights(workspace, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user to whom files of others are closed, also where tests run as root."""
    rights = "-dac_override,-dac_read_search,-fowner"
    drop = ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}"]
    program = [sys.executable, "-c", "from flows.cli import main; main()"]
    return subprocess.run(
        [*drop, *program, *arguments, "--contracts", workspace.contracts],
        cwd=PROJECT, env={**os.environ, "TDROP_HOME": workspace.home}, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip


def test_a_user_without_rights_gets_one_sentence(workspace, tmp_path):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can make a home of another user's, and setpriv take root's rights away")
    mine = {file: file.stat() for file in (workspace.root, *workspace.root.iterdir())}
    for file in mine:
        os.chown(file, 65534, 65534)
    try:
        for order in (["status"], ["export", SITE, "--folder", str(tmp_path / "out")]):
            done = run_without_rights(workspace, *order)
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith("tdrop: ")
            assert done.stderr.count("\n") == 1, done.stderr
            assert workspace.home in done.stderr
    finally:
        for file, before in mine.items():
            os.chown(file, before.st_uid, before.st_gid)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


@pytest.fixture
def only_read(workspace):
    """The home, on which nothing can be written while a test runs."""
    home = str(workspace.root)
    orders = [["mount", "--bind", home, home], ["mount", "-o", "remount,ro,bind", home]]
    try:
        done = [subprocess.run(order, capture_output=True, check=False).returncode for order in orders]
    except OSError:
        done = [1]
    if any(done):
        pytest.skip("only root can make a folder read-only for root, and not everywhere")
    yield workspace
    subprocess.run(["umount", "--lazy", home], check=True)


def test_a_home_that_may_only_be_read_gives_out_what_left_before(only_read, tmp_path, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", only_read.home)
    output = tdrop("export", SITE, "--folder", tmp_path / "out", "--contracts", only_read.contracts)
    assert "the report that left last is copied, because a new one must be remembered in" in output
    assert "which may only be read; for a new one run `tdrop export harbour` where" in output
    assert SITE in tdrop("status", "--contracts", only_read.contracts)
    assert {"report.html", "details.html", "evaluation.json"} <= {file.name for file in (tmp_path / "out").iterdir()}
    left = max(path for path in (only_read.root / "published").glob("[0-9]*/files"))
    assert bytes_of(tmp_path / "out") == bytes_of(left)


def test_what_leaves_is_counted_over_stand_ins(workspace):
    """Exact numbers, however rounded, tell the last patient to whoever knows all the others."""
    from tasks.export import leaving_data
    from tdrop.disclosure import disclose

    run = last_run(workspace, SITE)
    whole = assemble(workspace, run)
    shown, rounded = leaving_data(workspace, run, whole), disclose(whole, whole.site.disclosure)
    assert shown.evaluation != rounded.evaluation
    assert shown.shift.features != rounded.shift.features
    assert shown.matching.balance != rounded.matching.balance
    assert (shown.verdict, shown.evaluation.patients) == (rounded.verdict, rounded.evaluation.patients)
    assert leaving_data(workspace, run, whole).evaluation == shown.evaluation


def test_an_outcome_more_leaves_neither_in_a_card_nor_in_a_recalibration(tmp_path, prefect_server, monkeypatch):
    """The model is the same and its version knows nothing of the report that was withheld since."""
    workspace = compared_network(tmp_path)
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    hide_small_counts(workspace)
    outcomes = workspace.root / "demo" / f"{SITE}_outcomes.csv"
    all_outcomes = pd.read_csv(outcomes)
    all_outcomes[:-1].to_csv(outcomes, index=False)
    settle(workspace.root / "demo")
    transfer(workspace)
    before = recalibrate_site(workspace, SITE, str(outcomes), "intercept")
    all_outcomes.to_csv(outcomes, index=False)
    settle(workspace.root / "demo")
    transfer(workspace)
    with pytest.raises(DataError, match=r"is not recalibrated: fewer than 10 patients differ .* wait until 10 more"):
        recalibrate_site(workspace, SITE, str(outcomes), "intercept")
    client = connect(workspace)
    assert client.get_run(client.get_model_version(f"tdrop-{SITE}", before.version).run_id).data.metrics
    models = client.search_model_versions(f"name = 'tdrop-{SITE}'")
    assert {str(one.version) for one in models} == {"1", str(before.version)}
    promote_candidate(workspace, SITE, by="Dr Chen", note="a test")
    put_to_use(workspace, SITE)
    assert read_card(workspace, SITE, leaving=False) is not None
    assert read_card(workspace, SITE, leaving=True) is None


def test_a_rehearsal_remembers_what_left_of_a_site_and_counts_the_same_patients(tmp_path):
    workspace = write_tiny_network(tmp_path)
    played = Workspace.at(workspace.root / "rehearsals" / "prostate", workspace.contracts)
    assert published_in(played) == published_in(workspace)
    ids = pd.DataFrame({"patient_id": [f"P{number}" for number in range(100)]})
    assert list(stand_in_rows(played, ids, "patient_id")) == list(stand_in_rows(workspace, ids, "patient_id"))


def test_a_source_whose_label_file_is_refused_leaves_no_number(tmp_path, prefect_server):
    workspace = compared_network(tmp_path)
    hide_small_counts(workspace)
    file = Path(workspace.contracts) / "sites" / f"{SITE}.yaml"
    file.write_text(file.read_text().replace("role: target", "role: both"))
    outcomes = workspace.root / "demo" / f"{SITE}_outcomes.csv"
    outcomes.write_text(outcomes.read_text().replace("MIL00000", "OTHER"))
    settle(workspace.root / "demo")
    with pytest.raises(DataError, match=f"the label file for site '{SITE}' was refused; why is in") as caught:
        run_transfer(workspace, "hillside", SETTINGS)
    assert not tokens(str(caught.value).replace(str(workspace.root), ""))
    assert "of its 150 rows" in (workspace.site(SITE) / "refused" / "labels.txt").read_text()
