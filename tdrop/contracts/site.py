"""The YAML of a site: where its extract is and how it differs from the table. One file in `data_contracts/sites/`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, model_validator

from tdrop.base import INTERVAL_LEVEL
from tdrop.contracts.record import FileName, Name, Record, Scalar, Scalars, Share, Title, plain_label, to_label

#: A week.
LONGEST_SECONDS = 604_800.0
#: Stands for every column under `missing_codes`.
ALL_COLUMNS = "*"


def _codes_by_column(value: Any) -> Any:
    return {ALL_COLUMNS: value} if isinstance(value, list | tuple) else value


def _collect_options(value: Any) -> Any:
    """Allows a reader's options beside its kind: `{kind: csv, separator: ";"}`."""
    if isinstance(value, str):
        return {"kind": value}
    if isinstance(value, dict) and "options" not in value:
        options = {key: item for key, item in value.items() if key != "kind"}
        return {"options": options} | ({"kind": value["kind"]} if "kind" in value else {})
    return value


def _plain_keys(labels: Any) -> Any:
    """Writes the keys of a column's map of labels in the same way: `0.0` and `0` are the same number."""
    if not isinstance(labels, dict):
        return labels
    keys = [plain_label(to_label(key)) for key in labels]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated is not None:
        raise ValueError(f"'{repeated}' is mapped twice, in two spellings; keep one")
    return dict(zip(keys, labels.values(), strict=True))


def _require_cron(line: str) -> str:
    """Refuses text that is not a cron line of five fields, or that never comes due."""
    problem = ValueError("a schedule is a cron line of five fields, such as `0 5 * * 1` for Mondays at 5:00")
    if len(line.split()) != 5:
        raise problem
    try:
        next(CronSim(line, datetime(2024, 1, 1)))
    except (CronSimError, StopIteration):
        raise problem from None
    return line


Cron = Annotated[str, AfterValidator(_require_cron)]
_LabelMap = Annotated[dict[str, Scalar], BeforeValidator(_plain_keys)]


class Reader(Record):
    """How an extract is read: a kind (a file of `tdrop/data/readers/`) and that kind's options."""

    kind: str = "csv"
    options: dict[str, Any] = Field(default_factory=dict)


class Extract(Record):
    """A file or query, and how to convert it to the contract's names, units and categories.

    Attributes:
        location: Path or URL; may contain {home} and ${VARIABLE}; not used by the sql reader.
        renames: Name in the extract -> name in the contract.
        units: Contract name -> unit in the extract, where it differs.
        categories: Contract name -> {value in the extract: category of the contract}.
        missing_codes: Values that mean missing, for all columns (a list) or by column.
        settle_seconds: How long a file must be unchanged before it is read; 0 does not wait.
        wait_seconds: How long to wait for that before the extract is refused.
        read_seconds: How long reading may take.
    """

    location: str | None = None
    reader: Annotated[Reader, BeforeValidator(_collect_options)] = Reader()
    renames: dict[str, Name] = Field(default_factory=dict)
    units: dict[Name, str] = Field(default_factory=dict)
    categories: dict[Name, _LabelMap] = Field(default_factory=dict)
    missing_codes: Annotated[dict[str, Scalars], BeforeValidator(_codes_by_column)] = Field(default_factory=dict)
    settle_seconds: float = Field(default=1.0, ge=0, le=LONGEST_SECONDS)
    wait_seconds: float = Field(default=60.0, ge=0, le=LONGEST_SECONDS)
    read_seconds: float = Field(default=300.0, gt=0, le=LONGEST_SECONDS)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, value: Any) -> Any:
        """Allows a key without a value, as while a person is writing the file."""
        headings = ("renames", "units", "categories", "missing_codes")
        if not isinstance(value, dict):
            return value
        return {key: item for key, item in value.items() if item is not None or key not in headings}

    @model_validator(mode="after")
    def _located(self) -> Self:
        if self.location is None and self.reader.kind != "sql" and "url_env" not in self.reader.options:
            raise ValueError(f"a {self.reader.kind} reader needs a location")
        if self.location is not None and not self.location.strip():
            raise ValueError("location is empty; say where the extract is")
        return self

    def codes_of(self, column: str) -> frozenset[str]:
        """The values that mean missing in `column`."""
        return frozenset(self.missing_codes.get(ALL_COLUMNS, ()) + self.missing_codes.get(column, ()))


class LabelFile(Extract):
    """The outcomes of a target site; opened by evaluation only.

    Attributes:
        tolerance: Share of its rows that may lack an id, be unreadable or contradict each other.
        unknown_ids: Share of its rows that may be of patients who are not in the extract.
    """

    tolerance: Share = 0.05
    unknown_ids: Share = 0.5


class Decision(Record):
    """How the site uses the prediction.

    Attributes:
        risk_level: The risk from which the site acts. A patient whose risk is below it and whose interval reaches it is
            referred.
        threshold: Another name for the same level; a site gives one of the two.
        interval_level: Level of the intervals.
        capacity: Share of patients that clinicians can review.
        within_capacity: Whether all referrals together stay within that share, whatever their reason.
        rank_by: Who is reviewed first: the patients with the most expected loss, or with the largest sd.
        guessed: Whether the level is a proposal that nobody at the site has confirmed; reports say so.
    """

    risk_level: float = Field(default=0.15, gt=0, lt=1)
    threshold: float = Field(default=0.15, gt=0, lt=1)
    interval_level: float = Field(default=INTERVAL_LEVEL, gt=0, lt=1)
    capacity: Share = 0.10
    within_capacity: bool = False
    rank_by: Literal["expected_loss", "sd"] = "expected_loss"
    guessed: bool = False

    @model_validator(mode="before")
    @classmethod
    def _one_level(cls, value: Any) -> Any:
        """Gives both names the same level."""
        if not isinstance(value, dict):
            return value
        named = [value[name] for name in ("risk_level", "threshold") if value.get(name) is not None]
        if len(named) == 2 and named[0] != named[1]:
            raise ValueError("risk_level and threshold are the same level and differ here; give one of them")
        return {**value, "risk_level": named[0], "threshold": named[0]} if named else value


class Disclosure(Record):
    """What may leave the site.

    Attributes:
        threshold: Counts below it are hidden in what is published.
        exempt: Nothing is hidden; for simulated and public data only.
        upload_patients: Whether the patients' list may be logged beside the report.
    """

    # Below 2 nothing would be hidden: that is what `exempt` is for.
    threshold: int = Field(default=10, ge=2)
    exempt: bool = False
    upload_patients: bool = False


class Batches(Record):
    """Where new patients come from while a model is in use, in the format of the site's extract.

    Attributes:
        location: A folder, or a pattern such as `{home}/inbox/*.csv`; every file in it is one batch.
        reader: Or a table or query of a database; all of its rows are the batch, and rows seen before count once.
        schedule: When the watch reads them: a cron line, or null for runs by hand.
        retrain: What happens when new patients differ more from the source than the model's target did: "no" reports
            it; "propose" also trains a candidate for them, which a person may promote.
    """

    location: str | None = None
    reader: Annotated[Reader, BeforeValidator(_collect_options)] | None = None
    schedule: Cron | None = None
    retrain: Literal["no", "propose"] = "no"

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.location is None) == (self.reader is None):
            raise ValueError("give either `location`, a folder or a pattern of files, or a `reader` of kind sql")
        if self.reader is not None and self.reader.kind != "sql":
            raise ValueError("files are read like the site's extract; a `reader` here must be of kind sql")
        return self


class Site(Extract):
    """One site: its table, its role and its extract.

    Attributes:
        role: "source" has outcomes in its extract, "target" learns from sources, "both" is a target whose outcomes are
            known by now (`labels`), so that other targets may learn from it.
        source: Name of the labelled site that a target learns from, if it is a single one.
        sources: Their names if there are several; with neither, every labelled site of the table.
        simulated: No patient is real; shown wherever the site is shown.
        public: The data are published; may be exempt from disclosure control.
        labels: A target's outcomes, if there are any.
        labels_in_extract: What to do when a target's extract holds a label column.
        number_rows: The extract has no id: each row is a patient, and the site's name with the line is the id.
        duplicates: Which row of a patient who is listed more than once is used.
        not_recorded: Features that a target does not record; its models do without them.
        accept: Suspicions (by rule, such as `psa.scale`) that a person has checked and found right.
        schedule: A cron line, or null for runs by hand.
        batches: Where new patients come from once a model is in use, or null.
    """

    name: FileName
    title: Title
    table: str
    role: Literal["source", "target", "both"]
    source: str | None = None
    sources: tuple[Name, ...] = ()
    simulated: bool = False
    public: bool = False
    labels: LabelFile | None = None
    labels_in_extract: Literal["refuse", "drop"] = "refuse"
    number_rows: bool = False
    duplicates: Literal["first", "last", "refuse"] = "first"
    not_recorded: tuple[Name, ...] = ()
    accept: tuple[str, ...] = ()
    decision: Decision = Decision()
    disclosure: Disclosure = Disclosure()
    schedule: Cron | None = None
    batches: Batches | None = None
    _file: Path | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        if self.role == "source" and (self.source is not None or self.sources or self.labels is not None):
            raise ValueError("a source site has neither `source` nor `labels`: its outcomes are in its extract")
        if self.source is not None and self.sources:
            raise ValueError("source names one labelled site and sources several; give one of the two keys")
        if len(set(self.sources)) < len(self.sources):
            raise ValueError("sources names a site twice; name each once")
        if self.role == "both" and self.labels is None:
            raise ValueError("other sites learn from a site with role both; say in `labels` where its outcomes are")
        if self.role == "source" and self.batches is not None:
            raise ValueError("batches are for targets: nobody is scored at a source")
        if self.role == "source" and self.not_recorded:
            raise ValueError(
                "not_recorded is for targets; in the table, give a column that the source lacks role ignored"
            )
        if self.number_rows and (self.reader.kind == "sql" or self.labels is not None):
            raise ValueError("number_rows is for files without an id; rows of a query or of labels have no fixed order")
        if self.disclosure.exempt and not (self.simulated or self.public):
            raise ValueError("disclosure.exempt is for sites that are simulated or public")
        return self

    @property
    def file(self) -> str:
        """The site's YAML file, for messages."""
        return str(self._file) if self._file is not None else f"data_contracts/sites/{self.name}.yaml"
