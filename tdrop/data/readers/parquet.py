"""Parquet: values keep their stored types; integers stay integers in columns with missing values."""

from __future__ import annotations

import io
import uuid

import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as arrow_parquet

from tdrop.base import DataError
from tdrop.contracts import Record
from tdrop.data import locations
from tdrop.data.locations import Location, read_bytes

#: By default pandas reads integers with missing values as floats, which cannot hold every integer.
_WHOLE = {
    getattr(arrow, name)(): getattr(pd, f"{name.replace('u', 'U').replace('int', 'Int')}Dtype")()
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


class ParquetReader(Record):
    """A Parquet file needs no options."""

    def read(self, location: Location) -> pd.DataFrame:
        """Returns the table; the index is each row's number from 1."""
        content = read_bytes(location)
        if not content:
            raise DataError(f"extract '{location.shown}' is empty (0 bytes); check that the export was complete")
        try:
            frame = _read(content, location)
        except (arrow.ArrowException, OSError, ValueError, OverflowError, MemoryError, LookupError):
            raise DataError(f"extract '{location.shown}' is not a readable Parquet file; send it again") from None
        frame.index = pd.RangeIndex(1, len(frame) + 1, name="row")
        return frame


def _read(content: bytes, location: Location) -> pd.DataFrame:
    file = arrow_parquet.ParquetFile(io.BytesIO(content))
    # A few bytes can unpack to any number of rows, so the unpacked size counts.
    if file.metadata.num_rows * max(1, file.metadata.num_columns) * 8 > locations.LARGEST_BYTES:
        raise DataError(f"extract '{location.shown}' {locations.too_large()}")
    table = file.read()
    if len(set(table.schema.names)) < len(table.schema.names):
        raise DataError(f"extract '{location.shown}': a column name is given twice; rename those columns")
    _refuse_other_encodings(table, location)
    for place, column in enumerate(table.schema):
        if _is_bytes(column.type):
            table = table.set_column(place, column.name, _as_text(table.column(place), column.type))
        elif arrow.types.is_timestamp(column.type) and column.type.tz is not None:
            # The same moments in UTC, because not every machine knows every name of a time zone.
            moments = table.column(place).cast(arrow.timestamp(column.type.unit, "UTC"))
            table = table.set_column(place, column.name, moments)
    frame: pd.DataFrame = table.to_pandas(
        ignore_metadata=True, split_blocks=True, self_destruct=True, types_mapper=_WHOLE.get
    )
    return frame


def _refuse_other_encodings(table: arrow.Table, location: Location) -> None:
    """Refuses damaged values, and text that is not UTF-8, which Arrow reads without a check."""
    try:
        table.validate(full=True)
    except arrow.ArrowInvalid:
        raise DataError(
            f"extract '{location.shown}' holds text that is not UTF-8, or damaged values; write the table again, with "
            "text in UTF-8"
        ) from None


def _is_bytes(kind: arrow.DataType) -> bool:
    stored = kind.storage_type if isinstance(kind, arrow.BaseExtensionType) else kind
    types = arrow.types
    return bool(types.is_binary(stored) or types.is_large_binary(stored) or types.is_fixed_size_binary(stored))


def _as_text(values: arrow.ChunkedArray, kind: arrow.DataType) -> arrow.Array:
    """Reads bytes as text, as a UUID, or as hexadecimal digits."""
    if isinstance(kind, arrow.BaseExtensionType):
        values = arrow.chunked_array([chunk.storage for chunk in values.chunks], type=kind.storage_type)
        listed = [None if value is None else str(uuid.UUID(bytes=value)) for value in values.to_pylist()]
        return arrow.array(listed, type=arrow.string())
    try:
        return values.cast(arrow.string())
    except arrow.ArrowException:
        return arrow.array([None if value is None else value.hex() for value in values.to_pylist()], arrow.string())
