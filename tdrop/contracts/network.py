"""A network: the tables and sites of one folder, checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tdrop.base import ContractError, UsageError, did_you_mean
from tdrop.contracts.coherence import Problem, site_problems
from tdrop.contracts.explain import parse, refuse
from tdrop.contracts.record import digest_of
from tdrop.contracts.site import Site
from tdrop.contracts.table import Contract
from tdrop.contracts.yaml_file import Document, parse_yaml, read_yaml


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
        """What relative locations are relative to."""
        return self.folder.parent

    def site(self, name: str) -> Site:
        """Returns a site; an unknown name is a UsageError."""
        if name not in self.sites:
            raise UsageError(f"no site '{name}' in {self.folder / 'sites'}{did_you_mean(name, self.sites)}")
        return self.sites[name]

    def target(self, name: str) -> Site:
        """Returns a site that learns from another; an unknown name or a source is a UsageError."""
        site = self.site(name)
        if site.role != "target":
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

    def source_of(self, site: Site) -> Site:
        """Returns the labelled site that `site` learns from; a source is its own."""
        return site if site.source is None else self.sites[site.source]

    @property
    def targets(self) -> tuple[Site, ...]:
        """The sites without labels, by name."""
        return tuple(site for _, site in sorted(self.sites.items()) if site.role == "target")

    def digest_of(self, site: Site) -> str:
        """sha256 of all that is written down about a site, its table and its source."""
        source = self.source_of(site)
        return digest_of(
            [
                self.digests[f"sites/{site.name}"],
                self.digests[f"tables/{site.table}"],
                self.digests[f"sites/{source.name}"],
            ]
        )


def load_network(folder: Path | str) -> Network:
    """Reads and checks every table and site in `folder`; a ContractError has file and line."""
    folder = Path(folder)
    if not _is_folder(folder / "tables") or not _is_folder(folder / "sites"):
        raise ContractError(f"{folder}: expected a folder with `tables/` and `sites/` in it; see docs/CONTRACTS.md")
    digests: dict[str, str] = {}
    contracts: dict[str, Contract] = {}
    for document in _documents(folder / "tables"):
        contracts[document.path.stem] = parse(Contract, document)
        digests[f"tables/{document.path.stem}"] = digest_of(document.data)
    sites: dict[str, Site] = {}
    documents: dict[str, Document] = {}
    for document in _documents(folder / "sites"):
        site = parse(Site, document)
        site._file = _shown(document.path)
        sites[site.name], documents[site.name] = site, document
        digests[f"sites/{site.name}"] = digest_of(document.data)
    for name, site in sites.items():
        problems = _network_problems(site, sites, contracts)
        if problems:
            raise refuse(documents[name], problems)
    return Network(folder, MappingProxyType(contracts), MappingProxyType(sites), MappingProxyType(digests))


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # A name that is too long is the name of nothing.
        return False


def parse_site(text: str, name: str, network: Network) -> Site:
    """Returns a site from YAML text that is not (yet) a file of the network."""
    document = _named(parse_yaml(text, network.folder / "sites" / f"{name}.yaml"))
    site = parse(Site, document)
    site._file = _shown(document.path)
    problems = _network_problems(site, {**network.sites, name: site}, dict(network.contracts))
    if problems:
        raise refuse(document, problems)
    return site


def parse_table(text: str, path: Path) -> Contract:
    """Returns a table from YAML text that is not (yet) a file of a network."""
    return parse(Contract, _named(parse_yaml(text, path)))


def _shown(path: Path) -> Path:
    """A file as findings name it: below the contracts' folder, the same on every machine."""
    return Path(*path.absolute().parts[-3:])


def _documents(folder: Path) -> list[Document]:
    """The YAML files of a folder, by name; the file's name is the thing's name."""
    files = [path for path in sorted(folder.iterdir()) if path.suffix.lower() in (".yaml", ".yml")]
    # Editors and other systems leave files whose names start with a dot.
    paths = {path.stem: path for path in files if not path.name.startswith(".")}
    for path in files:
        if not path.name.isprintable():
            raise ContractError(f"{folder}: {path.name!a} cannot be the name of a file here; rename it")
        if path.stem in paths and paths[path.stem] != path:
            raise ContractError(f"{path}: {paths[path.stem].name} beside it has the same name; keep one of them")
    return [_named(read_yaml(path)) for path in paths.values()]


def _named(document: Document) -> Document:
    data: dict[str, Any] = document.data
    name = data.setdefault("name", document.path.stem)
    if name != document.path.stem:
        raise refuse(document, [(("name",), f"name is '{name}' but the file is {document.path.name}; make them equal")])
    return document


def _network_problems(site: Site, sites: Mapping[str, Site], contracts: Mapping[str, Contract]) -> list[Problem]:
    if site.table not in contracts:
        return [(("table",), f"no table '{site.table}'{did_you_mean(site.table, contracts)}")]
    problems = list(site_problems(site, contracts[site.table]))
    if site.source is not None:
        source = sites.get(site.source)
        if source is None:
            labelled = [name for name, other in sites.items() if other.role == "source"]
            problems.append((("source",), f"no site '{site.source}'{did_you_mean(site.source, labelled)}"))
        elif source.role != "source":
            problems.append((("source",), f"site '{site.source}' is itself a target; name a labelled site"))
        elif source.table != site.table:
            problems.append((("source",), f"site '{site.source}' delivers table '{source.table}', not '{site.table}'"))
    return problems
