"""The workspace of a run: its home, its contracts, and what other packages read from the environment."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from tdrop.base import DataError, UsageError, resource_error

if TYPE_CHECKING:
    from tdrop.contracts import Contract, Disclosure, Network, Site

#: Owner-only: reports hold patients' risks.
PRIVATE = 0o700
#: Folder in the home with one folder per rehearsed table, each a home of its own.
REHEARSALS = "rehearsals"
#: Of more sources than this, a title names some; a report's details name all.
MOST_TITLES = 5


def default_home() -> Path:
    """Where everything is written: `$TDROP_HOME`, or `.tdrop` below the working directory."""
    # An empty variable counts as not set; some files of settings leave ~ unexpanded.
    return Path(os.environ.get("TDROP_HOME") or ".tdrop").expanduser().absolute()


#: No telemetry, few messages, and enough time for Prefect to start on a slow disk.
DEFAULTS: Mapping[str, str] = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # Prefect's V2 page contacts an analytics host before it reads any setting; its V1 page does not.
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_CLIENT_METRICS_ENABLED": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # The task that records tries again with longer waits; MLflow's own seven tries take minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "GX_ANALYTICS_ENABLED": "false",
    # Results must not depend on how many cores there are: parallelism is by processes.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def prepare_environment() -> None:
    """Sets environment variables for other packages, unless the user has; called before they are imported.

    Prefect's own files go to the home as well. Files are readable for their owner only, also those that a deployment or
    a cluster's worker writes: stages and reports hold patients' values.
    """
    os.umask(0o077)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not os.environ.get("PREFECT_API_URL"):  # set to nothing is not set
        os.environ.setdefault("PREFECT_HOME", str(default_home() / "prefect"))


@contextmanager
def environment(**values: str | None) -> Iterator[None]:
    """Sets environment variables for the block, or with None removes them; then they are what they were."""
    before = {name: os.environ.get(name) for name in values}
    try:
        _set_environment(values)
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def silence_logs() -> None:
    """Keeps other packages' warnings and logs off the terminal, unless -v is given."""
    for name, value in {
        # Flow runs are logged to the server at level INFO; the terminal has lines of its own.
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "MLFLOW_LOGGING_LEVEL": "CRITICAL",
        "PYTHONWARNINGS": "ignore",
    }.items():
        os.environ.setdefault(name, value)


def _stamp(file: Path) -> tuple[int, int]:
    """When a file was written, and its size; zeros for a broken link, such as an editor's lock."""
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@dataclass(frozen=True)
class Workspace:
    """The home, into which everything is written, and the folder of contracts; both absolute."""

    home: str
    contracts: str

    @classmethod
    def at(
        cls, home: str | Path | None = None, contracts: str | Path | None = None, *, writes: bool = True
    ) -> Workspace:
        """Resolves both against the working directory, and checks that the home can be written (or read)."""
        chosen = Path(home).absolute() if home else default_home()
        try:
            if writes:
                chosen.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
                with (probe := chosen / f".probe-{uuid.uuid4().hex[:8]}").open("w"):
                    probe.unlink()
            elif chosen.exists():
                next(chosen.iterdir(), None)
        except OSError as error:
            raise UsageError(
                f"cannot {'write to' if writes else 'read'} '{chosen}': {error.strerror}; set TDROP_HOME to a folder "
                "of your own"
            ) from error
        folder = contracts or os.environ.get("TDROP_CONTRACTS") or "data_contracts"
        return cls(str(chosen), str(Path(folder).absolute()))

    @property
    def root(self) -> Path:
        """The home."""
        return Path(self.home)

    @property
    def main(self) -> Path:
        """The home with the record of exports and their secret; for a rehearsal the home that it is part of."""
        return self.root.parents[1] if self.root.parent.name == REHEARSALS else self.root

    @property
    def store(self) -> Path:
        """The folder of finished stages."""
        return self.root / "store"

    @property
    def sites(self) -> Path:
        """The folder with one folder per site."""
        return self.root / "sites"

    def site(self, name: str) -> Path:
        """One site's folder."""
        return self.sites / name

    def latest(self, name: str) -> Path:
        """The folder of a site's last report."""
        return self.site(name) / "latest"

    def network(self) -> Network:
        """Reads the tables and sites; cached until a file changes, because every step of a run needs them."""
        folder = Path(self.contracts)
        return _read_network(folder, tuple((str(file), *_stamp(file)) for file in sorted(folder.rglob("*.y*ml"))))

    def resolve(self, name: str) -> ResolvedSite:
        """A site with all that its files say about it."""
        network = self.network()
        site = network.site(name)
        return ResolvedSite(self, network, site, network.contract_of(site), network.sources_of(site))


class Where(TypedDict):
    """The folders to which the location of an extract is relative, as readers take them."""

    home: Path
    base: Path


@dataclass(frozen=True)
class ResolvedSite:
    """One site of a network, with all that a run needs from its files.

    Attributes:
        workspace: The workspace.
        network: The network that the site belongs to.
        site: The site's own file.
        contract: The site's table.
        sources: The labelled sites that it learns from; for a source the site itself.
    """

    workspace: Workspace
    network: Network
    site: Site
    contract: Contract
    sources: tuple[Site, ...]

    @property
    def name(self) -> str:
        """The site's name."""
        return self.site.name

    @cached_property
    def where(self) -> Where:
        """The folders to which the locations of its extracts are relative."""
        return {"home": self.workspace.root, "base": self.network.base}

    @property
    def policy(self) -> Disclosure:
        """The rules of what may leave the site."""
        return self.site.disclosure

    @cached_property
    def digest(self) -> str:
        """Digest of the files of the site, its table and its sources."""
        return self.network.digest_of(self.site)

    @property
    def reads_new_patients(self) -> bool:
        """Whether it reads the patients of batches instead of its extract."""
        return self.site.location != self.network.site(self.name).location

    @property
    def source_name(self) -> str:
        """The names of its sources."""
        return ", ".join(source.name for source in self.sources)

    def source_title(self, left_out: Collection[str] = ()) -> str:
        """The titles of its sources, for people, without those that were left out; of many sources the first ones."""
        titles = [source.title for source in self.sources if source.name not in left_out]
        if len(titles) > MOST_TITLES:
            titles = [*titles[: MOST_TITLES - 1], f"{len(titles) - MOST_TITLES + 1} other sites"]
        return titles[0] if len(titles) == 1 else f"{', '.join(titles[:-1])} and {titles[-1]}"

    def resolved_sources(self) -> tuple[ResolvedSite, ...]:
        """Its sources, resolved like itself."""
        return tuple(replace(self, site=source, sources=(source,)) for source in self.sources)


@lru_cache(maxsize=4)
def _read_network(folder: Path, _files: tuple[tuple[str, int, int], ...]) -> Network:
    from tdrop.contracts import load_network

    return load_network(folder)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty folder that replaces `folder` when the block ends without an error.

    `folder` is a link that is switched at once: a reader sees the old files or the new ones, never a mixture, and after
    an interrupted run the old ones.
    """
    keep = folder.parent / f"{folder.name}-versions"
    incoming = keep / uuid.uuid4().hex[:12]
    incoming.mkdir(parents=True, mode=PRIVATE)
    try:
        yield incoming
        previous = folder.resolve() if folder.is_symlink() else None
        link = folder.parent / f".{folder.name}-{incoming.name}"
        link.symlink_to(incoming.relative_to(folder.parent))
        os.replace(link, folder)  # noqa: PTH105 - the atomic swap of a link is os.replace's promise
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)
        raise
    if previous is not None and previous.parent == keep.resolve():
        shutil.rmtree(previous, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Makes a folder that a person named; a UsageError says why it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise resource_error(error) or UsageError(
            f"the folder '{folder}' cannot be made ({error.strerror}); give another path"
        ) from error


def write_private(path: Path, text: str) -> None:
    """Writes a file completely or not at all, readable for its owner only."""
    incoming = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        incoming.touch(mode=0o600)
        incoming.write_text(text, encoding="utf-8")
        os.replace(incoming, path)  # noqa: PTH105 - atomic on one file system
    except OSError as error:
        incoming.unlink(missing_ok=True)
        raise resource_error(error) or DataError(
            f"cannot write '{path.name}' below '{path.parent}': {error.strerror}"
        ) from error
