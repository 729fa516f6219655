"""A content-addressed store of finished stages: what makes a run resumable and a repeat cheap.

A stage is a function that writes files into a folder. It depends on nothing but its arguments, so its result lives in
a folder named by the digest of those arguments and of this program's source. Tasks hand each other a `Ref` (a path
and a digest), never frames or models, so no patient's values reach Prefect.

`@stage("shift")` over `def shift(folder, encoded, seed)` declares one; `shift(site, encoded, seed)` returns its `Ref`.
`@site_stage` is for functions that also need the site itself. Digests that may leave are keyed with the home's secret.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import inspect
import json
import logging
import os
import secrets
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar

from filelock import FileLock
from pydantic import Field

from tdrop.base import DataError, plain, read_record
from tdrop.home.pool import compute
from tdrop.home.progress import raise_if_interrupted
from tdrop.home.workspace import PRIVATE, ResolvedSite, Workspace, write_private

logger = logging.getLogger(__name__)
MANIFEST = "manifest.json"
#: How long a stage took: beside its contents and no part of them, so that the same work has the same digest.
TIMES = "times.json"


P = ParamSpec("P")
Record = TypeVar("Record")


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal content gives equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest_of(value: Any) -> str:
    """The sha256 of a value's canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def file_digest(file: Path) -> str:
    """The sha256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


#: The home's secret. Without it earlier stages are not recognised, and exports use other stand-ins.
SECRET = "digest.key"


def keyed_digest(home: Path, digest: str) -> str:
    """The digest, keyed with the home's secret.

    From a plain digest of the rows, somebody who knows all patients of a site but one could test guesses about the last
    one. A keyed digest shows within the home whether two runs have the same rows, and tells everybody else nothing.
    """
    file = home / SECRET
    if not file.is_file():
        home.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with FileLock(home / f"{SECRET}.lock", mode=0o600):
            if not file.is_file():  # another process may have been first
                write_private(file, secrets.token_hex(32))
    return hmac.digest(file.read_bytes(), digest.encode(), "sha256").hex()


@dataclass(frozen=True)
class Ref:
    """A finished stage: its folder, and the digest of its files.

    Attributes:
        stage: Name of the stage.
        folder: Its folder, relative to the store.
        digest: Digest of its files, keyed with the home's secret.
        store: The folder of the store; not saved, so that a home can be moved.
    """

    stage: str
    folder: str
    digest: str
    store: Annotated[str, Field(exclude=True)] = ""

    @property
    def path(self) -> Path:
        """The folder with the stage's files."""
        return Path(self.store, self.folder)

    @property
    def seconds(self) -> float | None:
        """How long a worker process took to make it and the stages it continues; None if that was not measured."""
        file = self.path / TIMES
        return float(self.json(TIMES)["seconds"]) if file.is_file() else None

    @property
    def is_intact(self) -> bool:
        """Whether no file changed since the stage was finished."""
        return self.digest == stage_digest(Path(self.store).parent, _contents(self.path))

    @property
    def content_digest(self) -> str:
        """Digest of its files without the home's secret, by which models are compared. It must not leave the home."""
        return digest_of(self.json(MANIFEST)["files"])

    def json(self, name: str) -> Any:
        """Reads one of the stage's JSON files."""
        return json.loads((self.path / name).read_text(encoding="utf-8"))

    def record(self, kind: type[Record], name: str) -> Record:
        """Reads one of the stage's records."""
        return read_record(kind, self.path / name)

    def find(self, kind: type[Record], name: str) -> Record | None:
        """Reads one of the stage's records; None if the stage does not have it."""
        return self.record(kind, name) if (self.path / name).is_file() else None


def stage_digest(home: Path, contents: Mapping[str, str]) -> str:
    """The keyed digest of a stage from the digests of its files."""
    return keyed_digest(home, digest_of(contents))


#: Packages whose versions can change the content of a stage.
PACKAGES = ("torch", "scikit-learn", "numpy", "pandas", "scipy", "great-expectations")
#: Code that only draws or starts runs: a changed wording must not train every model again.
NO_CONTENT = ("tdrop/report/", "tdrop/figures/", "flows/")


@cache
def code_digest() -> str:
    """Digest of all that can change a stage: source of the library and the tasks, and versions of packages."""
    return _digest_files(deciding_files())


@cache
def program_digest() -> str:
    """Digest of the whole program, drawing and wiring included: if it changes, a site is run again."""
    return _digest_files(program_files())


def deciding_files() -> dict[str, Path]:
    """By name, the source files that can change the content of a stage."""
    source = ((name, file) for name, file in program_files().items() if file.suffix.startswith(".py"))
    return {name: file for name, file in source if not name.startswith(NO_CONTENT)}


def program_files() -> dict[str, Path]:
    """By name, all files of the program."""
    project = Path(__file__).parents[2]
    files = [file for package in ("tdrop", "tasks", "flows") for file in sorted((project / package).rglob("*"))]
    source = (file for file in files if file.is_file() and "__pycache__" not in file.parts)
    return {file.relative_to(project).as_posix(): file for file in source}


def _digest_files(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256(canonical({package: version(package) for package in PACKAGES}).encode())
    for name, file in files.items():
        digest.update(name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


class Stage(Generic[P]):
    """A function that writes files into a folder, made into one that takes a site and returns the `Ref` of the stage.

    It can be a Prefect task: its signature is that of the function, with `site` instead of the folder.
    """

    def __init__(self, name: str, build: Callable[..., None], in_worker: bool, of_site: bool) -> None:
        functools.update_wrapper(self, build)
        self.name, self.build, self.in_worker, self.of_site = name, build, in_worker, of_site
        first, *inputs = inspect.signature(build).parameters.values()
        site = [] if of_site else [first.replace(name="site", annotation="Workspace | ResolvedSite")]
        self.__signature__ = inspect.Signature([*site, *inputs])

    def __call__(self, site: Workspace | ResolvedSite, *args: P.args, **kwargs: P.kwargs) -> Ref:
        """Returns the stage for these inputs, building it only when the site's store does not have it."""
        raise_if_interrupted()
        bound = self.__signature__.bind(site, *args, **kwargs)
        bound.apply_defaults()
        inputs = dict(bound.arguments)
        if not self.of_site:
            del inputs["site"]

        def build(folder: Path) -> None:
            if self.in_worker:
                compute(self.build_timed, folder, **inputs)
            else:
                self.build(folder, **inputs)

        root = site.root if isinstance(site, Workspace) else site.workspace.root
        return Store(root).make(self.name, {name: _as_input(value) for name, value in inputs.items()}, build)

    def build_timed(self, folder: Path, **inputs: Any) -> None:
        """Writes the stage's files and how long that took, added to the time of a stage that it continues."""
        started = time.perf_counter()
        self.build(folder, **inputs)
        seconds, times = time.perf_counter() - started, folder / TIMES
        before = json.loads(times.read_text(encoding="utf-8"))["seconds"] if times.is_file() else 0.0
        times.write_text(canonical({"seconds": before + seconds}), encoding="utf-8")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return _find_stage, (self.build.__module__, self.build.__name__)


def _find_stage(module: str, name: str) -> Any:
    """Finds a stage by its module and name in another process, below the Prefect task made of it."""
    return inspect.unwrap(getattr(import_module(module), name), stop=lambda made: isinstance(made, Stage))


def stage(name: str, *, in_worker: bool = False) -> Callable[[Callable[Concatenate[Path, P], None]], Stage[P]]:
    """Declares a stage.

    Args:
        name: Its folder below the store.
        in_worker: Whether it is work for a worker process: fitting, sampling, comparing patients.
    """
    return lambda build: Stage(name, build, in_worker, of_site=False)


def site_stage(name: str) -> Callable[[Callable[Concatenate[Path, ResolvedSite, P], None]], Stage[P]]:
    """Declares a stage whose function also takes the site, because it depends on the site's files."""
    return lambda build: Stage(name, build, in_worker=False, of_site=True)


def _as_input(value: Any) -> Any:
    """An input as part of a stage's key."""
    digest = getattr(value, "digest", None)
    if digest is not None:
        return digest
    if isinstance(value, Mapping):
        return {str(name): _as_input(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_as_input(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else plain(value)


class Store:
    """The stages below `home/store`."""

    def __init__(self, home: Path) -> None:
        self.root = home / "store"

    def make(self, stage: str, inputs: Mapping[str, Any], build: Callable[[Path], None]) -> Ref:
        """Returns the stage for these inputs, and builds it if it is not there intact.

        Args:
            stage: Name of the stage.
            inputs: Digests and settings that the result depends on, as plain JSON values.
            build: Writes the stage's files into the folder it is given.
        """
        key = digest_of({"stage": stage, "inputs": dict(inputs), "code": code_digest()})
        folder = self.root / stage / key[:32]
        writable = os.access(self.root, os.W_OK, effective_ids=os.access in os.supports_effective_ids)
        if not writable and (kept := _digest_if_intact(self.root.parent, folder)) is not None:
            # A read-only home: finished stages are used as they are.
            return Ref(stage, folder.relative_to(self.root).as_posix(), kept, str(self.root))
        # Another site's run may be making the same stage, if it depends on the source alone.
        with _locked(folder):
            digest = _digest_if_intact(self.root.parent, folder) or self._build(folder, inputs, build)
            os.utime(folder)  # pruning goes by this time
        return Ref(stage, folder.relative_to(self.root).as_posix(), digest, str(self.root))

    def _build(self, folder: Path, inputs: Mapping[str, Any], build: Callable[[Path], None]) -> str:
        incoming = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
        incoming.mkdir(parents=True)
        try:
            build(incoming)
            contents = _contents(incoming)
            # Marks the stage as finished. By the inputs, pruning finds all that was made from a site's rows.
            (incoming / MANIFEST).write_text(canonical({"inputs": dict(inputs), "files": contents}), encoding="utf-8")
            with suppress(OSError):  # after a failed build, two waiting runs may both have built it
                incoming.rename(folder)
            if not folder.is_dir():
                raise DataError(f"cannot write below '{folder.parent}'; check space and rights")
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
        return stage_digest(self.root.parent, contents)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lets one thread at a time make a stage; if its process dies, the lock is free."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f".{folder.name}.lock"), mode=0o600)
    with lock:
        try:
            yield
        finally:
            # Runs that wait for the removed file find the stage; later runs need not wait.
            Path(lock.lock_file).unlink(missing_ok=True)


def _contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in (MANIFEST, TIMES))
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in files}


def _digest_if_intact(home: Path, folder: Path) -> str | None:
    """The digest of a finished stage; None if it is absent or damaged, and then its folder is removed."""
    try:
        contents = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
        if contents == _contents(folder):
            return stage_digest(home, contents)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    if (folder / MANIFEST).exists():
        logger.warning("stage %s was damaged on disk and is computed again", folder.parent.name)
    shutil.rmtree(folder, ignore_errors=True)
    return None


@dataclass(frozen=True)
class SealedFile:
    """A JSON document in a file, with a keyed digest of its content.

    Attributes:
        home: The home whose secret keys the digest.
        file: The file.
        name: Key of the document in the file.
        kind: Kind of document, part of the digest: a document of another kind does not pass.
    """

    home: Path
    file: Path
    name: str
    kind: str

    def write(self, document: Any) -> None:
        """Writes the document, readable for its owner only."""
        sealed = {"seal": self._seal(document), self.name: document}
        write_private(self.file, json.dumps(sealed, separators=(",", ":"), allow_nan=False) + "\n")

    def read(self, site: str) -> Any:
        """The document about a site's champion; None without one; a DataError if it was altered since."""
        if not self.file.is_file():
            return None
        try:
            content = json.loads(self.file.read_bytes())
            if content["seal"] == self._seal(content[self.name]):
                return content[self.name]
        except (ValueError, TypeError, KeyError):
            pass
        raise DataError(
            f"the {self.kind} of site '{site}' was altered or damaged since it was written ('{self.file}'); put back a "
            f"copy of it, or promote the model again with `tdrop promote {site}`, which makes a new one"
        )

    def _seal(self, document: Any) -> str:
        return keyed_digest(self.home, f"{self.kind} {digest_of(document)}")
