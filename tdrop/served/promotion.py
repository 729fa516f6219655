"""Who took a model into use, the seal over every byte of it, and its sealed copy on this machine."""

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
#: Alias of the version that a person took into use.
CHAMPION = "champion"
#: Tags on a promoted version: the digest of its every byte, who promoted it, why, when, and what was champion before.
SEAL, BY, NOTE = "tdrop.seal", "tdrop.promoted_by", "tdrop.promotion_note"
WHEN, BEFORE = "tdrop.promoted_at", "tdrop.champion_before"
#: What MLflow adds at the top of a copy and is no part of the model.
ADDED = "registered_model_meta"
#: Stands where a file's length would: more bytes than any file has.
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
    """The seal that a person's promotion left on a version; a sentence refuses a version that nobody promoted.

    Args:
        which: The version, for people.
        tags: What the registry has on it.
    """
    if not all(tags.get(key, "").strip() for key in (BY, NOTE)):
        how = "a person promotes one with `tdrop promote SITE --by NAME --note TEXT`"
        raise UsageError(f"{which} was not promoted, or without a name and a note; {how}")
    if not tags.get(SEAL):
        raise UsageError(f"{which} was promoted without a seal; promote it again with `tdrop promote`")
    return tags[SEAL]


def seal_of(folder: Path) -> str:
    """Returns the digest of every file below a folder: its name, its length and its bytes.

    A link or a pipe is no file of a model: its name alone counts, and nothing is read through it.
    """
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if name == ADDED or (file.is_dir() and not file.is_symlink()):
            continue
        plain = file.is_file() and not file.is_symlink()
        content = file.read_bytes() if plain else b""
        length = len(content) if plain else _NO_FILE
        # Lengths before what they are of: no two folders run together to the same bytes.
        digest.update(len(name.encode()).to_bytes(8) + name.encode() + length.to_bytes(8) + content)
    return digest.hexdigest()


@dataclass(frozen=True)
class SealedCopy:
    """The copy of one registered version on this machine, with its seal in a file beside it.

    Attributes:
        which: The version, for people.
        folder: Where its copy belongs.
        take: Brings the files that MLflow's store has now into a folder.
    """

    which: str
    folder: Path
    take: Callable[[Path], None]

    @property
    def model(self) -> Path:
        """The folder with model/ and served.json inside the copy."""
        served = next(self.folder.rglob(SERVED), None)
        if served is None:
            raise Unavailable(f"the copy of {self.which} was damaged; remove '{self.folder}'")
        return served.parent

    def stored_seal(self) -> str:
        """The seal of what MLflow's store has now."""
        with self._stored() as files:
            return seal_of(files)

    def renew(self, registered: str | None) -> str:
        """Takes the files anew and returns their seal, also kept beside them.

        Only what a run registered is kept: the report that a person has read is about that.
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
        """Refuses a version of which one byte is not as it was promoted, here or in MLflow's store."""
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
        """Refuses a copy that is not what was promoted, or a seal that is not its own.

        Where there is neither, this machine never had the model.
        """
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
        """The files as MLflow's store has them now, for the block."""
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
        """Makes files the copy; the seal comes first, because a copy without one is refused."""
        write_private(self._beside, seal)
        with suppress(OSError):  # somebody else may have been first with the same files
            files.rename(self.folder)
