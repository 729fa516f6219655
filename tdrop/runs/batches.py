"""What is remembered of a site's scored batches: `sites/<site>/batches.json`, which stays at the site."""

from __future__ import annotations

from filelock import FileLock
from pydantic import TypeAdapter

from tdrop.home import Place, write_private
from tdrop.served import Batch, remember

FILE = "batches.json"
_BATCHES = TypeAdapter(tuple[Batch, ...])


def read_batches(place: Place, site: str) -> tuple[Batch, ...]:
    """The batches, oldest first."""
    file = place.site(site) / FILE
    return _BATCHES.validate_json(file.read_bytes()) if file.is_file() else ()


def keep_batch(place: Place, site: str, batch: Batch) -> None:
    """Remembers one more batch."""
    file = place.site(site) / FILE
    with FileLock(file.with_suffix(".lock"), mode=0o600):
        write_private(file, _BATCHES.dump_json(remember(read_batches(place, site), batch), indent=1).decode())
