"""The result of validation as plain records, for `validation.json`, the report and the mail to the hospital."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import computed_field

from tdrop.base import Count, Hidden, written
from tdrop.contracts.record import Severity

Sureness = Literal["certain", "likely", "possible"]
About = Literal["patients", "file"]
#: By kind of finding, what the mail asks the site to do; the fix of a finding is for the person who keeps its YAML.
_ASKS = {
    "readable": "please send plain values",
    "range": "please check these values and their unit",
    "plausible": "please confirm that they are right",
    "categories": "please tell us what the other labels mean",
    "missing": "please tell us why",
    "present": "please add it",
    "unique": "please send one row per patient",
    "quarantine": "please correct the rows below",
    "rows": "please check that the export was complete",
    "header": "please send the names of the columns in the first line",
    "labels": "please send outcomes in a separate file",
    "scale": "please confirm the unit",
    "unit": "please confirm the unit",
    "all_missing": "please send it, or tell us why it is missing",
    "constant": "please check the export",
    "new_categories": "please confirm that they are right",
    "swapped": "please check the two columns",
    "identifier": "please check the column",
    "shared_patients": "please check that only your patients are in the extract",
    "lines": "please correct these lines",
    "repeated_header": "please send one table with one header",
    "footer": "please send only the patients",
    "no_values": "please send their values",
    "values": "please check that the export was complete",
    "damaged_ids": "please export ids as text, in UTF-8",
    "shortened_ids": "please export ids as text",
    "names": "please send each column once",
}
#: What a finding of each severity means for the rows or the site, the most severe first.
MEANINGS: Mapping[Severity, str] = {
    "table_stop": "the extract cannot be used",
    "row_critical": "rows set aside",
    "table_warning": "worth a question",
    "row_warning": "rows used, unusual",
    "info": "for information",
}


@dataclass(frozen=True)
class Finding:
    """One result of a check.

    Attributes:
        rule: Which check, such as `psa.range`.
        column: The contract's column, or None for the whole table.
        severity: What it means for the rows or the site.
        count: How many rows (or values).
        total: Out of how many.
        words: The finding in words, with `{count}`, `{total}` and the names in `others` in place of numbers of
            patients, so that disclosure control can hide the numbers.
        fix: What to change, and where; without a number of patients.
        sure: How sure tdrop is; `certain` for rules of the contract.
        others: Further numbers of patients in the words, by name.
        about: Whether the numbers count patients, or columns and lines of the file, which need not be hidden.
    """

    rule: str
    column: str | None
    severity: Severity
    count: Count
    total: Count
    words: str
    fix: str = ""
    sure: Sureness = "certain"
    others: Mapping[str, Count] = field(default_factory=dict)
    about: About = "patients"

    # Written to the file for people who read it without tdrop; never read back.
    @computed_field  # type: ignore[prop-decorator]
    @property
    def sentence(self) -> str:
        """The finding in words, with the numbers of this record."""
        text, numbers = self.words, {"count": self.count, "total": self.total, **self.others}
        hidden = all(value == Hidden() for value in numbers.values())
        if hidden:
            text = text.replace("{count} of {total}", "some").replace("all {count}", "all")
        for name, value in numbers.items():
            text = text.replace(f"{{{name}}}", "some" if hidden else written(value))
        return text

    @property
    def ask(self) -> str:
        """What the mail asks the site to do about it."""
        return _ASKS.get(self.rule.rpartition(".")[2], "please check these rows")

    @property
    def ours(self) -> bool:
        """Whether it is about our own YAML, which the site cannot change."""
        return self.rule.endswith((".renames", ".unmatched"))


@dataclass(frozen=True)
class Step:
    """How many persons of a database are left after one condition.

    Attributes:
        title: Who they are, such as `persons with an index record`.
        count: How many persons or rows are left.
    """

    title: str
    count: Count


@dataclass(frozen=True)
class Validation:
    """Whether an extract keeps its contract: read = used + quarantined + duplicates, before disclosure rounds them.

    Attributes:
        simulated: No patient is real.
        public: The data are published.
        attrition: From the persons in a database of events to the rows used; empty for other extracts.
        form: Version of `validation.json`.
    """

    site: str
    title: str
    contract: str
    contract_version: str
    read: Count
    used: Count
    quarantined: Count
    duplicates: Count
    findings: tuple[Finding, ...]
    stopped: bool
    simulated: bool = False
    public: bool = False
    attrition: tuple[Step, ...] = ()
    form: Literal[1] = 1

    def with_findings(self, more: tuple[Finding, ...]) -> Validation:
        """Returns a copy with more findings; a table-level stop among them stops the site.

        Further findings about a column that is absent, or mostly unreadable, are left out: they add nothing.
        """
        absent = {finding.column for finding in self.by_severity("table_stop") if finding.rule.endswith(".present")}
        for item in self.findings:
            if item.rule.endswith(".readable") and isinstance(item.count, int) and isinstance(item.total, int):
                absent |= {item.column} if item.count * 2 > item.total else set()
        more = tuple(finding for finding in more if finding.column is None or finding.column not in absent)
        return replace(self, findings=sort_findings(self.findings + more), stopped=self.stopped or stops(more))

    def by_severity(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def reason(self) -> str:
        """The first reason why the extract must not be used, and how many more there are; "" when it may be used."""
        reasons = self.by_severity("table_stop")
        more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        return f"{reasons[0].sentence}{more}" if reasons else ""

    def message(self) -> str:
        """The text of a mail to the site: the findings and what to do about them, without any patient's value."""
        verdict = "cannot be used as it is" if self.stopped else "can be used"
        read, used, aside, repeated = map(written, (self.read, self.used, self.quarantined, self.duplicates))
        rows = f"Rows read: {read}; none of them was used."
        if not self.stopped:
            rows = f"Rows read: {read} = used {used} + quarantined {aside} + duplicates {repeated}."
        elif self.read == Hidden():
            rows = "None of its rows was used; this mail does not say how many there are."
        lines = [
            f"Your extract for {self.title} {verdict}.",
            "",
            f"It was checked against table '{self.contract}', version {self.contract_version}.",
            rows,
        ]
        headings = {
            "table_stop": "What must be changed before it can be used",
            "row_critical": "Rows that cannot be used" if self.stopped else "Rows that were set aside",
            "table_warning": "What we would like to understand",
            "row_warning": "Rows that look unusual" if self.stopped else "Rows that were used but look unusual",
        }
        for severity, heading in headings.items():
            findings = self.by_severity(severity)  # type: ignore[arg-type]
            asks = [f"- {item.sentence}; {item.ask}" for item in findings if not item.ours]
            lines += ["", f"{heading}:", *asks] if asks else []
        if self.stopped:
            lines += ["", "Please send the extract again with these changes."]
        return "\n".join(lines) + "\n"


def join_validations(parts: Sequence[Validation]) -> Validation:
    """The validations of several sources as one: the sums of their counts, and all of their findings."""
    return replace(
        parts[0],
        site=", ".join(part.site for part in parts),
        title=", ".join(part.title for part in parts),
        **{name: sum(getattr(part, name) for part in parts) for name in ("read", "used", "quarantined", "duplicates")},
        findings=sort_findings(tuple(item for part in parts for item in part.findings)),
        stopped=any(part.stopped for part in parts),
        simulated=all(part.simulated for part in parts),
        public=all(part.public for part in parts),
    )


def sort_findings(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Orders findings by severity, keeping the contract's order within each."""
    return tuple(sorted(findings, key=lambda finding: list(MEANINGS).index(finding.severity)))


def stops(findings: tuple[Finding, ...]) -> bool:
    """Whether one of the findings says that the extract cannot be used."""
    return any(finding.severity == "table_stop" for finding in findings)
