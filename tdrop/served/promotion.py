"""Who promoted a model, the seal of all its bytes, and its sealed copy on this machine."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tdrop.base import Damaged, DataError, TdropError, Unavailable, UsageError
from tdrop.home import PRIVATE, write_private

#: The two parts of a served model's folder.
MODEL, SERVED = "model", "served.json"
#: Alias of the version that a person promoted.
CHAMPION = "champion"
#: Tags on a promoted version: the digest of all its bytes, who promoted it, why, when, and the previous champion.
SEAL, BY, NOTE = "tdrop.seal", "tdrop.promoted_by", "tdrop.promotion_note"
WHEN, BEFORE = "tdrop.promoted_at", "tdrop.champion_before"
#: File that MLflow adds to a copy and that is not part of the model.
ADDED = "registered_model_meta"
#: Written instead of a length for what is not a file: more bytes than any file has.
_NO_FILE = 2**64 - 1


def model_name(site: str) -> str:
    """The registered model of a site."""
    return f"tdrop-{site}"


@dataclass(frozen=True)
class Promotion:
    """Who made which version of a site's model the champion, when and with which note."""

    site: str
    version: str
    method: str
    by: str
    note: str
    when: str


def promoted_seal(which: str, tags: Mapping[str, str]) -> str:
    """The seal from a version's promotion; raises a UsageError for a version that nobody promoted.

    Args:
        which: The version, for messages.
        tags: Its tags in the registry.
    """
    if not all(tags.get(key, "").strip() for key in (BY, NOTE)):
        how = "a person promotes one with `tdrop promote SITE --by NAME --note TEXT`"
        raise UsageError(f"{which} was not promoted, or without a name and a note; {how}")
    if not tags.get(SEAL):
        raise UsageError(f"{which} was promoted without a seal; promote it again with `tdrop promote`")
    return tags[SEAL]


def seal_of(folder: Path) -> str:
    """Returns the digest of every file below a folder: its name, its length and its bytes.

    Of links and pipes only the name counts; they are not read.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if name == ADDED or (file.is_dir() and not file.is_symlink()):
            continue
        plain = file.is_file() and not file.is_symlink()
        content = file.read_bytes() if plain else b""
        length = len(content) if plain else _NO_FILE
        # With lengths first, different folders never give the same bytes.
        digest.update(len(name.encode()).to_bytes(8) + name.encode() + length.to_bytes(8) + content)
    return digest.hexdigest()


@dataclass(frozen=True)
class SealedCopy:
    """The copy of one registered version on this machine, with its seal in a file beside it.

    Attributes:
        which: The version, for messages.
        folder: The folder of its copy.
        take: Copies the files that MLflow's store has now into a folder.
    """

    which: str
    folder: Path
    take: Callable[[Path], None]

    @property
    def model(self) -> Path:
        """The folder inside the copy with model/ and served.json."""
        served = next(self.folder.rglob(SERVED), None)
        if served is None:
            raise Unavailable(f"the copy of {self.which} was damaged; remove '{self.folder}'")
        return served.parent

    def stored_seal(self) -> str:
        """The seal of the files that MLflow's store has now."""
        with self._stored() as files:
            return seal_of(files)

    def renew(self, registered: str | None) -> str:
        """Copies the files again and returns their seal, which is also stored beside them.

        Refuses files that differ from those that the run registered: the report that a person read is not about them.
        """
        with self._stored() as files:
            seal = seal_of(files)
            if seal != registered:
                raise DataError(
                    f"the files of {self.which} in MLflow are not those that its run registered; bring MLflow's store "
                    "back as it was, or erase the site with `tdrop prune --erase` and transfer again"
                )
            shutil.rmtree(self.folder, ignore_errors=True)
            self._keep(files, seal)
        return seal

    def require(self, seal: str) -> None:
        """Raises if a byte of the version changed since its promotion, here or in MLflow's store."""
        self._require_here(seal)
        with self._stored() as files:
            if seal_of(files) != seal:
                raise DataError(
                    f"{self.which} was altered in MLflow's store since its promotion; bring the store back as it was, "
                    "or promote another model"
                )
            if not self.folder.is_dir():
                self._keep(files, seal)

    @property
    def _beside(self) -> Path:
        return self.folder.with_suffix(".seal")

    def _require_here(self, seal: str) -> None:
        """Raises if the copy or the seal beside it changed; without both, this machine never had the model."""
        there = self.folder.exists() or self.folder.is_symlink()
        if there and not self._beside.is_file():
            raise DataError(
                f"the seal beside the copy of {self.which} was removed since its promotion; find out by whom, remove "
                f"'{self.folder}' too, and the model is taken anew from MLflow, where its seal is kept as well"
            )
        if self._beside.is_file() and self._beside.read_bytes() != seal.encode():
            raise DataError(
                f"the seal of {self.which} in MLflow is not the one beside its copy, '{self._beside}': one of them was "
                "altered since its promotion; find out by whom, and promote a model again"
            )
        if there and (self.folder.is_symlink() or not self.folder.is_dir() or seal_of(self.folder) != seal):
            raise DataError(
                f"the copy of {self.which} was altered since its promotion; remove '{self.folder}' and find out by whom"
            )

    @contextmanager
    def _stored(self) -> Iterator[Path]:
        """Yields a copy of the files in MLflow's store."""
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with tempfile.TemporaryDirectory(dir=self.folder.parent, prefix=".model-") as scratch:
            files = Path(scratch, "stored")
            files.mkdir()
            try:
                self.take(files)
            except TdropError:
                raise
            except Exception as error:
                raise Unavailable(
                    f"{self.which} could not be fetched from MLflow ({type(error).__name__}); check its artifact store"
                ) from error
            if not any(files.rglob(SERVED)):
                raise Damaged(f"{self.which} has no files in MLflow; check its artifact store")
            yield files

    def _keep(self, files: Path, seal: str) -> None:
        """Makes files the copy; writes the seal first, because a copy without a seal is refused."""
        write_private(self._beside, seal)
        with suppress(OSError):  # another process may have been first with the same files
            files.rename(self.folder)
