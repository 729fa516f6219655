"""A network: the tables and sites of a folder, checked against each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tdrop.base import ContractError, UsageError, did_you_mean
from tdrop.contracts.record import KeyPath, content_digest
from tdrop.contracts.site import ALL_COLUMNS, Disclosure, Extract, Site
from tdrop.contracts.table import Contract, known_labels
from tdrop.contracts.yaml_file import YamlDocument, parse, parse_yaml, read_yaml, refuse

#: Names of suspicions about a column, and about a table as a whole.
COLUMN_SUSPICIONS = ("scale", "unit", "all_missing", "constant", "new_categories", "identifier")
TABLE_SUSPICIONS = ("swapped", "shared_patients", "shortened_ids")


@dataclass(frozen=True)
class Network:
    """Sites that share tables.

    Attributes:
        folder: Where `tables/` and `sites/` are.
        contracts: Tables by name.
        sites: Sites by name.
        digests: sha256 of each file's parsed content, by `tables/<name>` and `sites/<name>`.
    """

    folder: Path
    contracts: Mapping[str, Contract]
    sites: Mapping[str, Site]
    digests: Mapping[str, str]

    @property
    def base(self) -> Path:
        """The folder that relative locations start from."""
        return self.folder.parent

    def site(self, name: str) -> Site:
        """Returns a site; an unknown name is a UsageError."""
        if name not in self.sites:
            raise UsageError(f"no site '{name}' in {self.folder / 'sites'}{did_you_mean(name, self.sites)}")
        site = self.sites[name]
        policy = self._disclosure(site)
        return site if policy == site.disclosure else site.model_copy(update={"disclosure": policy})

    def _disclosure(self, site: Site) -> Disclosure:
        """The strictest rule of a site and its sources, because a site's report also shows numbers of its sources."""
        real = [source for source in self.sources_of(site) if not (source.simulated or source.public)]
        rules = [rule for rule in (site.disclosure, *(source.disclosure for source in real)) if not rule.exempt]
        if not rules:
            return site.disclosure
        strictest = max(rule.threshold for rule in rules)
        return site.disclosure.model_copy(update={"exempt": False, "threshold": strictest})

    def target(self, name: str) -> Site:
        """Returns a site that learns from another; an unknown name or a source is a UsageError."""
        site = self.site(name)
        if site.role == "source":
            targets = ", ".join(target.name for target in self.targets)
            raise UsageError(f"site '{name}' is a source; give a target site: {targets or 'there is none yet'}")
        return site

    def contract(self, name: str) -> Contract:
        """Returns a table; an unknown name is a UsageError."""
        if name not in self.contracts:
            raise UsageError(f"no table '{name}' in {self.folder / 'tables'}{did_you_mean(name, self.contracts)}")
        return self.contracts[name]

    def contract_of(self, site: Site) -> Contract:
        """Returns the table that a site delivers."""
        return self.contracts[site.table]

    def sources_of(self, site: Site) -> tuple[Site, ...]:
        """Returns the labelled sites that `site` learns from: those in its YAML, else all others of its table by name.

        For a source it is the source itself.
        """
        if site.role == "source":
            return (site,)
        if names := ((site.source,) if site.source is not None else site.sources):
            return tuple(self.sites[name] for name in names)
        return tuple(other for other in self.labelled(site.table) if other.name != site.name)

    def labelled(self, table: str) -> tuple[Site, ...]:
        """The sites of a table whose outcomes are known, by name."""
        return tuple(site for _, site in sorted(self.sites.items()) if site.table == table and site.role != "target")

    @property
    def targets(self) -> tuple[Site, ...]:
        """The sites that learn from others, by name."""
        return tuple(site for _, site in sorted(self.sites.items()) if site.role != "source")

    def digest_of(self, site: Site) -> str:
        """sha256 of the YAML of a site, its table and its sources."""
        sources = [f"sites/{source.name}" for source in self.sources_of(site)]
        return content_digest([self.digests[name] for name in (f"sites/{site.name}", f"tables/{site.table}", *sources)])


def load_network(folder: Path | str) -> Network:
    """Reads and checks every table and site in `folder`; a ContractError has file and line."""
    folder = Path(folder)
    if not _is_folder(folder / "tables") or not _is_folder(folder / "sites"):
        raise ContractError(
            f"{folder}: expected a folder with `tables/` and `sites/` in it; name it with `--contracts DIR`, make one "
            "with `tdrop start OURS.csv THEIRS.csv` or `tdrop init DIR --data FILE --outcome COLUMN`, or see one "
            "with `tdrop demo`"
        )
    tables, documents = _documents(folder / "tables"), _documents(folder / "sites")
    contracts = {name: parse(Contract, document) for name, document in tables.items()}
    sites = {name: _parse_site(document) for name, document in documents.items()}
    for name, site in sites.items():
        if problems := list(_site_problems(site, sites, contracts)):
            raise refuse(documents[name], problems)
    digests = {f"tables/{name}": content_digest(document.data) for name, document in tables.items()}
    # `batches` changes neither a model nor a report.
    digests |= {
        f"sites/{name}": content_digest({key: value for key, value in document.data.items() if key != "batches"})
        for name, document in documents.items()
    }
    return Network(folder, MappingProxyType(contracts), MappingProxyType(sites), MappingProxyType(digests))


def parse_site(text: str, name: str, network: Network) -> Site:
    """Returns a site from YAML text that is not (yet) a file of the network."""
    document = _named(parse_yaml(text, network.folder / "sites" / f"{name}.yaml"))
    site = _parse_site(document)
    if problems := list(_site_problems(site, {**network.sites, name: site}, network.contracts)):
        raise refuse(document, problems)
    return site


def parse_table(text: str, path: Path) -> Contract:
    """Returns a table from YAML text that is not (yet) a file of a network."""
    return parse(Contract, _named(parse_yaml(text, path)))


def _parse_site(document: YamlDocument) -> Site:
    site = parse(Site, document)
    # Findings show the path from the contracts' folder on, which is the same on every machine.
    site._file = Path(*document.path.absolute().parts[-3:])
    return site


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # The name is too long for any file.
        return False


def _documents(folder: Path) -> dict[str, YamlDocument]:
    """The YAML files of a folder by name; the file's name is the thing's name."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (".yaml", ".yml")]
    # Files whose names start with a dot are left by editors and operating systems.
    paths = {path.stem: path for path in files if not path.name.startswith(".")}
    for path in files:
        if not path.name.isprintable():
            raise ContractError(f"{folder}: {path.name!a} cannot be the name of a file here; rename it")
        if path.stem in paths and paths[path.stem] != path:
            raise ContractError(f"{path}: {paths[path.stem].name} beside it has the same name; keep one of them")
    return {name: _named(read_yaml(path)) for name, path in paths.items()}


def _named(document: YamlDocument) -> YamlDocument:
    name = document.data.setdefault("name", document.path.stem)
    if name != document.path.stem:
        raise refuse(document, [(("name",), f"name is '{name}' but the file is {document.path.name}; make them equal")])
    return document


def _site_problems(
    site: Site, sites: Mapping[str, Site], contracts: Mapping[str, Contract]
) -> Iterator[tuple[KeyPath, str]]:
    """Yields the places and sentences of contradictions between a site, its table and its sources."""
    if site.table not in contracts:
        yield ("table",), f"no table '{site.table}'{did_you_mean(site.table, contracts)}"
        return
    contract = contracts[site.table]
    known = suspicions_of(contract)
    for index, rule in enumerate(site.accept):
        if rule not in known:
            similar = did_you_mean(rule, known)
            hint = similar if "did you mean" in similar else f"; suspicions have names such as {known[0]}"
            yield ("accept", index), f"no suspicion '{rule}'{hint}"
    features = [column.name for column in contract.features]
    for index, name in enumerate(site.not_recorded):
        if name not in features:
            similar = did_you_mean(name, features)
            yield ("not_recorded", index), f"table '{contract.name}' has no feature '{name}'{similar}"
    if features and set(site.not_recorded) >= set(features):
        yield ("not_recorded",), f"no feature of table '{contract.name}' is left; a model needs at least one"
    yield from _extract_problems(site, contract, ())
    if site.labels is not None:
        yield from _extract_problems(site.labels, contract, ("labels",))
    yield from _source_problems(site, sites)


def _source_problems(site: Site, sites: Mapping[str, Site]) -> Iterator[tuple[KeyPath, str]]:
    labelled = [name for name, other in sites.items() if other.role != "target" and name != site.name]
    if site.role != "source" and site.source is None and not site.sources:
        if not any(sites[name].table == site.table for name in labelled):
            yield ("table",), f"table '{site.table}' has no labelled site to learn from; add one with role source"
        return
    sources: list[tuple[KeyPath, str]] = [(("source",), site.source)] if site.source is not None else []
    sources += [(("sources", index), name) for index, name in enumerate(site.sources)]
    for key, name in sources:
        source = sites.get(name)
        if source is None:
            yield key, f"no site '{name}'{did_you_mean(name, labelled)}"
        elif name == site.name:
            yield key, f"site '{name}' cannot learn from itself; name other labelled sites"
        elif source.role == "target":
            yield key, f"site '{name}' is itself a target; name a labelled site"
        elif source.table != site.table:
            yield key, f"site '{name}' delivers table '{source.table}', not '{site.table}'"


def suspicions_of(contract: Contract) -> tuple[str, ...]:
    """The rules that a site may list under `accept`: suspicions, not rules of the contract."""
    columns = [f"{column.name}.{check}" for column in contract.features for check in COLUMN_SUSPICIONS]
    return (*columns, *(f"table.{check}" for check in TABLE_SUSPICIONS))


def _extract_problems(extract: Extract, contract: Contract, above: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    table = f"table '{contract.name}'"
    columns = {
        "renames": extract.renames.values(),
        "units": extract.units,
        "categories": extract.categories,
        "missing_codes": extract.missing_codes.keys() - {ALL_COLUMNS},
    }
    for key, names in columns.items():
        for name in names:
            if name not in contract.names:
                yield (*above, key), f"{table} has no column '{name}'{did_you_mean(name, contract.names)}"
    for name, times in Counter(extract.renames.values()).items():
        if times > 1:
            yield (*above, "renames"), f"{times} columns of the extract are renamed to '{name}'"
    for name in extract.units:
        if name in contract.names and contract.column(name).unit is None:
            yield (*above, "units", name), f"column '{name}' has no unit in {table} to convert to"
    for name, labels in extract.categories.items():
        known = known_labels(contract.column(name)) if name in contract.names else ()
        for label in labels.values():
            if name in contract.names and label not in known:
                hint = did_you_mean(label, known) if known else "; the column holds numbers"
                yield (*above, "categories", name), f"'{label}' is no category of '{name}' in {table}{hint}"
