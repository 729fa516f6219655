"""SQL queries over events, for DuckDB, PostgreSQL and SQLite alike; the database aggregates to one row per index.

Times are whole microseconds since 1970, so that comparisons work in the same way in every database. A record without a
time of day is at the beginning of its day, and one without any time at `STATIC`, before all others. Features use
records with time <= the index's; the outcome uses those with time > the index's. So a record of the index day with only
a date counts as known at the index, and is never the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tdrop.contracts import Index, Window, span_in_days

DAY = 86_400_000_000
#: The time of records without one, such as a sex; and the beginning of a window with an open beginning.
STATIC = -3_000_000_000_000_000_000
_ALWAYS = -4_000_000_000_000_000_000
#: The codes of birth and death in a contract.
BIRTH, DEATH = "MEDS_BIRTH", "MEDS_DEATH"
#: Numbers of the two selections of the outcome; those of the columns start at 0.
OUTCOME, COMPETING = -1, -2

Code = str | int


@dataclass(frozen=True)
class Relations:
    """The records of an event store as SELECT statements.

    Attributes:
        events: subject, time, code, value, label (the value as text), unit.
        persons: subject, one row per person.
        periods: subject, start, finish, beyond (the first moment that is no longer observed).
        birth: The code of birth.
        death: The code of death.
    """

    events: str
    persons: str
    periods: str
    birth: Code
    death: Code


@dataclass(frozen=True)
class Wanted:
    """The records from which a column is computed.

    Attributes:
        number: The column's number; see `OUTCOME`.
        codes: Their codes, each with its category.
        low: Beginning of the window in microseconds from the index.
        high: Its end.
        direction: 1 if the last record counts, -1 if the first does.
    """

    number: int
    codes: tuple[tuple[Code, str | None], ...]
    low: int = _ALWAYS
    high: int = 0
    direction: int = 1


def window_ends(window: Window) -> tuple[int, int]:
    """Both ends of a window in microseconds from the index."""
    low, high = window.days
    return _ALWAYS if low is None else round(low * DAY), round(high * DAY)


def literal(value: object) -> str:
    """Writes a value as SQL."""
    if value is None:
        return "null"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"


@dataclass(frozen=True)
class Queries:
    """The queries of an event store for a table."""

    relations: Relations
    index: Index
    wanted: tuple[Wanted, ...]
    index_codes: tuple[Code, ...]

    def census(self) -> str:
        """By column, code and unit: how many records there are, and how many of them have a number."""
        return f"""{self._with()}
select s.number as number, e.code as code, coalesce(e.unit, '') as unit, count(*) as records,
       count(e.value) as numbers
from events e join selection s on s.code = e.code group by s.number, e.code, coalesce(e.unit, '')"""

    def frequent(self, most: int, recently: int) -> str:
        """By code at or before the index: patients, patients with a value in the last `recently` microseconds, records.

        Also counts the records with a number, a text or a time, and the rows of the cohort.
        """
        recent = f"e.value is not null and (e.time = {STATIC} or e.time >= c.moment - {recently})"
        return f"""{self._with(cohort=True)}
select e.code as code, count(distinct c.subject) as patients, count(*) as records, count(e.value) as numbers,
       count(distinct case when {recent} then c.subject end) as recent,
       count(e.label) as labels, sum(case when e.time > {STATIC} then 1 else 0 end) as timed,
       (select count(*) from cohort) as cohort_rows
from cohort c join ({self.relations.events}) e on e.subject = c.subject and e.time <= c.moment
group by e.code order by count(distinct c.subject) desc, e.code limit {most}"""

    def described(self, codes: Sequence[Code]) -> str:
        """By code, unit and text at or before the index: records and patients."""
        text = "case when e.value is null then e.label end"
        return f"""{self._with(cohort=True)}
select e.code as code, coalesce(e.unit, '') as unit, {text} as label, count(*) as records,
       count(distinct c.subject) as patients
from cohort c join ({self.relations.events}) e on e.subject = c.subject and e.time <= c.moment
where e.code in ({_listed(codes)}) group by e.code, coalesce(e.unit, ''), {text}"""

    def attrition(self) -> str:
        """How many persons and index dates are left after each condition, in one row."""
        steps, conditions = [], []
        for name, condition in self._conditions().items():
            conditions.append(condition)
            steps.append(f"sum(case when {' and '.join(conditions)} then 1 else 0 end) as {name}")
        return f"""{self._with(cohort=True)}
select (select count(distinct subject) from ({self.relations.persons}) p) as persons,
       count(distinct subject) as with_index, {", ".join(steps)}
from staged"""

    def doubtful(self) -> str:
        """How many of the records are dated before birth or after the day of death, or repeat another."""
        code = literal(self.relations.death)
        deaths = f"select subject, min(time) as death from events where code = {code} group by subject"
        times = "sum(case when {} then e.times else 0 end)"
        before = times.format(f"e.time > {STATIC} and e.time < b.birth")
        after = times.format(f"e.time >= d.death + {DAY}")
        return f"""{self._with(cohort=True)},
counted as (
    select e.subject, e.time, e.code, count(*) as times from events e
    join (select distinct subject from cohort) c on c.subject = e.subject
    group by e.subject, e.time, e.code, e.value, e.label, e.unit
)
select sum(e.times) as records, {before} as before_birth, {after} as after_death, sum(e.times) - count(*) as repeated
from counted e left join births b on b.subject = e.subject left join ({deaths}) d on d.subject = e.subject"""

    def aggregates(self, takes: Mapping[int, str], units: Mapping[int, Mapping[str, tuple[float, float]]]) -> str:
        """One row per index with a column c<number> for each of `takes`; `units` scale values by column and unit."""
        calculated = {"min": "lowest", "max": "highest", "mean": "average", "count": "records", "any": "records",
                      "days_since": "latest"}  # fmt: skip
        pivot = [f"max(case when a.number = {number} then a.{calculated[take]} end) as c{number}"
                 for number, take in takes.items()]  # fmt: skip
        return f"""{self._with(cohort=True, units=units, numbers=takes)},
picked as ({self._picked()}),
amounts as (
    select subject, place, number, min(value) as lowest, max(value) as highest, avg(value) as average,
           count(*) as records, max(since) as latest
    from picked group by subject, place, number
)
{self._pivoted(pivot, "amounts")}"""

    def ranked(self, labelled: Mapping[int, bool], units: Mapping[int, Mapping[str, tuple[float, float]]]) -> str:
        """One row per index with the last or first value, or category, of each column of `labelled`."""
        pivot = [f"max(case when a.number = {number} then a.{'label' if text else 'value'} end) as c{number}"
                 for number, text in labelled.items()]  # fmt: skip
        return f"""{self._with(cohort=True, units=units, numbers=labelled)},
picked as ({self._picked()}),
placed as (
    select subject, place, number, value, label,
           row_number() over (partition by subject, place, number
                              order by time * direction desc, value desc, label desc) as rank_here
    from picked where value is not null or label is not null
),
chosen as (select subject, place, number, value, label from placed where rank_here = 1)
{self._pivoted(pivot, "chosen")}"""

    def outcome(self) -> str:
        """One row per index: microseconds to the outcome, the competing event, the end of follow-up; and beyond it."""
        first = {name: f"min(case when s.number = {number} then e.time end)"
                 for name, number in (("outcome_time", OUTCOME), ("competing_time", COMPETING))}  # fmt: skip
        return f"""{self._with(cohort=True, numbers=(OUTCOME, COMPETING))},
seen as (
    select c.subject as subject, c.place as place, {", ".join(f"{how} as {name}" for name, how in first.items())}
    from cohort c join events e on e.subject = c.subject and e.time > c.moment and e.time < c.beyond
    join selection s on s.code = e.code group by c.subject, c.place
)
select c.subject as subject, c.place as place, a.outcome_time - c.moment as outcome_after,
       a.competing_time - c.moment as competing_after, c.finish - c.moment as end_after
from cohort c left join seen a on a.subject = c.subject and a.place = c.place order by c.subject, c.place"""

    def _with(
        self,
        *,
        cohort: bool = False,
        units: Mapping[int, Mapping[str, tuple[float, float]]] | None = None,
        numbers: Iterable[int] | None = None,
    ) -> str:
        """The common beginning of the queries: the events, the selections, and the cohort's rows."""
        asked = [item for item in self.wanted if numbers is None or item.number in set(numbers)]
        # The cohort needs births, deaths and index records.
        codes = {self.relations.birth, self.relations.death, *self.index_codes}
        codes |= {code for item in asked for code, _ in item.codes}
        chosen = f" where code in ({_listed(codes)})"
        parts = [f"events as (select subject, time, code, value, label, unit from ({self.relations.events}) r{chosen})"]
        parts.append(self._selection(asked))
        if units is not None:
            parts.append(self._units(units))
        if cohort:
            parts += self._cohort()
        return "with " + ",\n".join(parts)

    def _selection(self, asked: Sequence[Wanted]) -> str:
        rows = [
            (item.number, code, category, item.low, item.high, item.direction)
            for item in asked
            for code, category in item.codes
        ]
        return _values("selection", ("number", "code", "category", "low", "high", "direction"), rows or [
            (-99, self.relations.birth, None, 0, 0, 1)
        ])  # fmt: skip

    def _units(self, units: Mapping[int, Mapping[str, tuple[float, float]]]) -> str:
        rows = [(number, unit, float(scale), float(shift))
                for number, known in units.items() for unit, (scale, shift) in known.items()]  # fmt: skip
        return _values("units", ("number", "unit", "scale", "shift"), rows or [(-99, "", 1.0, 0.0)])

    def _cohort(self) -> list[str]:
        codes = _listed(self.index_codes)
        birth = literal(self.relations.birth)
        return [
            f"births as (select subject, min(time) as birth, count(distinct time) as births from events "
            f"where code = {birth} and time > {STATIC} group by subject)",
            f"dates as (select distinct subject, time as moment from events where code in ({codes}) "
            f"and time > {STATIC})",
            "ordered as (select subject, moment, row_number() over (partition by subject order by moment) as place, "
            "lag(moment) over (partition by subject order by moment) as previous from dates)",
            f"periods as ({self.relations.periods})",
            "observed as (select o.subject as subject, o.place as place, min(p.start) as start, "
            "max(p.finish) as finish, max(p.beyond) as beyond from ordered o join periods p "
            "on p.subject = o.subject and p.start <= o.moment and p.beyond > o.moment group by o.subject, o.place)",
            "staged as (select o.subject as subject, o.moment as moment, o.place as place, o.previous as previous, "
            "b.birth as birth, b.births as births, w.start as start, w.finish as finish, w.beyond as beyond "
            "from ordered o left join births b on b.subject = o.subject "
            "left join observed w on w.subject = o.subject and w.place = o.place)",
            f"cohort as (select subject, place, moment, finish, beyond from staged "
            f"where {' and '.join(self._conditions().values())})",
        ]

    def _conditions(self) -> dict[str, str]:
        """The conditions on an index date, in the order of the attrition."""
        conditions = {"by_occurrence": "place = 1" if self.index.occurrence == "first" else "place >= 1",
                      "one_birth": "(births is null or births = 1)", "observed": "beyond is not null"}  # fmt: skip
        if self.index.washout is not None:
            span = round(span_in_days(self.index.washout) * DAY)
            conditions["washed_out"] = f"start <= moment - {span} and (previous is null or previous < moment - {span})"
        if self.index.age is not None:
            low, high = self.index.age.low, self.index.age.high
            ends = [f"moment - birth >= {round((low or 0) * 365.25 * DAY)}"]
            ends += [f"moment - birth <= {round(high * 365.25 * DAY)}"] if high is not None else []
            conditions["of_age"] = "birth is not null and " + " and ".join(ends)
        return conditions

    def _picked(self) -> str:
        """The records at or before the index from which each column is computed, without repeats, in its unit."""
        return f"""
    select distinct c.subject as subject, c.place as place, s.number as number, e.code as code, e.time as time,
           s.direction as direction, e.value * u.scale + u.shift as value, coalesce(s.category, e.label) as label,
           case when e.time > {STATIC} then e.time - c.moment end as since
    from cohort c join events e on e.subject = c.subject and e.time <= c.moment
    join selection s on s.code = e.code and e.time >= c.moment + s.low and e.time <= c.moment + s.high
    join units u on u.number = s.number and (u.unit = coalesce(e.unit, '') or u.unit = '*')
    where u.unit = '*' or e.value is not null"""

    def _pivoted(self, columns: Sequence[str], relation: str) -> str:
        return f"""select c.subject as subject, c.place as place, {", ".join(columns)}
from cohort c left join {relation} a on a.subject = c.subject and a.place = c.place
group by c.subject, c.place order by c.subject, c.place"""


def recorded(relations: Relations, codes: Iterable[Code]) -> str:
    """The given codes that have a record."""
    return f"select distinct code from ({relations.events}) r where code in ({_listed([relations.birth, *codes])})"


def most_recorded(relations: Relations, most: int = 5000) -> str:
    """The codes with the most records."""
    return f"select code, count(*) as records from ({relations.events}) r group by code order by 2 desc limit {most}"


def _listed(codes: Iterable[Code]) -> str:
    return ", ".join(sorted(map(literal, set(codes))))


def _values(name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A relation of constants; text is cast, so that the database knows the type of a null."""
    texts = {"category", "unit"}
    written = [
        "(" + ", ".join(f"cast({literal(item)} as varchar)" if key in texts else literal(item)
                        for key, item in zip(columns, row, strict=True)) + ")"
        for row in rows
    ]  # fmt: skip
    return f"{name}({', '.join(columns)}) as (values {', '.join(written)})"
