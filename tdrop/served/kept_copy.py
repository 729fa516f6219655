"""A registered version's files on this machine: taken from MLflow's store, kept, and held against their seal."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tdrop.base import Damaged, DataError, TdropError, Unavailable
from tdrop.home import PRIVATE, write_private
from tdrop.served.model import SERVED
from tdrop.served.promotion import seal_of


@dataclass(frozen=True)
class KeptCopy:
    """The copy of one version.

    Attributes:
        which: The version, for people.
        folder: Where its copy belongs.
        scratch: A folder of the same disk, for files that are looked at and not kept.
        take: Brings the files that MLflow's store has now into a folder.
    """

    which: str
    folder: Path
    scratch: Path
    take: Callable[[Path], None]

    @property
    def beside(self) -> Path:
        """The file beside the copy that holds its seal."""
        return self.folder.with_suffix(".seal")

    def model(self) -> Path:
        """The copy's folder with model/ and served.json, fetched where it is not here."""
        if not self.folder.is_dir():
            self._fetch(self.folder)
        found = next(self.folder.rglob(SERVED), None)
        if found is None:
            raise Unavailable(f"the copy of {self.which} was damaged; remove '{self.folder}'")
        return found.parent

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

    def _require_here(self, seal: str) -> None:
        """Refuses a copy that is not what was promoted, or a seal that is not its own.

        Where there is neither, this machine never had the model.
        """
        there = self.folder.exists() or self.folder.is_symlink()
        if there and not self.beside.is_file():
            raise DataError(
                f"the seal beside the copy of {self.which} was removed since its promotion; find out by whom, remove "
                f"'{self.folder}' too, and the model is taken anew from MLflow, where its seal is kept as well"
            )
        if self.beside.is_file() and self.beside.read_bytes() != seal.encode():
            raise DataError(
                f"the seal of {self.which} in MLflow is not the one beside its copy, '{self.beside}': one of them was "
                "altered since its promotion; find out by whom, and promote a model again"
            )
        if there and (self.folder.is_symlink() or not self.folder.is_dir() or seal_of(self.folder) != seal):
            raise DataError(
                f"the copy of {self.which} was altered since its promotion; remove '{self.folder}' and find out by whom"
            )

    @contextmanager
    def _stored(self) -> Iterator[Path]:
        """The files as MLflow's store has them now, for the block."""
        with tempfile.TemporaryDirectory(dir=self.scratch, prefix=".model-") as fresh:
            self._fetch(stored := Path(fresh, "stored"))
            yield stored

    def _keep(self, files: Path, seal: str) -> None:
        """Makes files the copy; the seal comes first, because a copy without one is refused."""
        write_private(self.beside, seal)
        with suppress(OSError):  # somebody else may have been first with the same files
            files.rename(self.folder)

    def _fetch(self, folder: Path) -> None:
        """Takes the files from MLflow's store and moves them into place whole."""
        incoming = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
        incoming.mkdir(parents=True, mode=PRIVATE)
        try:
            self.take(incoming)
            if not any(incoming.rglob(SERVED)):
                raise Damaged(f"{self.which} has no files in MLflow; check its artifact store")
            incoming.rename(folder)
        except TdropError:
            raise
        except Exception as error:
            # Somebody else may have been first with the same files.
            if not folder.is_dir():
                raise Unavailable(
                    f"{self.which} could not be fetched from MLflow ({type(error).__name__}); check its artifact store"
                ) from error
        finally:
            shutil.rmtree(incoming, ignore_errors=True)
