"""Parquet: values keep the types they were stored with."""

from __future__ import annotations

import io

import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as arrow_parquet

from tdrop.contracts.record import Record
from tdrop.data.locations import Location, open_bytes
from tdrop.errors import DataError


class Options(Record):
    """A Parquet file says everything itself."""


def read(options: Options, location: Location) -> pd.DataFrame:
    """Returns the table; the index is each row's number from 1."""
    with open_bytes(location) as stream:
        content = stream.read()
    if not content:
        raise DataError(f"extract '{location.shown}' is empty (0 bytes); check that the export was complete")
    try:
        table = arrow_parquet.ParquetFile(io.BytesIO(content)).read()
        names = table.schema.names
        if len(set(names)) < len(names):
            raise DataError(f"extract '{location.shown}': a column name is given twice; rename those columns")
        frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, split_blocks=True, self_destruct=True)
    except (arrow.ArrowException, OSError, ValueError):
        raise DataError(f"extract '{location.shown}' is not a readable Parquet file; send it again") from None
    frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
    return frame
