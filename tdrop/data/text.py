"""The bytes of an extract as UTF-8 text, or one sentence about what they are instead."""

from __future__ import annotations

import codecs
import re

from tdrop.base import DataError

#: How files begin that are no text, and what they are.
_FOREIGN = {
    b"PK\x03\x04": "an Excel or zip file",
    b"PK\x05\x06": "an empty zip file",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
    b"SQLite format 3": "a SQLite database",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"7z\xbc\xaf\x27\x1c": "a 7z file",
    b"Rar!": "a rar file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"{\\rtf": "a Word document",
    b"\x89HDF": "an HDF5 file",
    b"$FL2": "an SPSS file",
    b"HEADER RECORD*******": "a SAS transport file",
    b"<stata_dta>": "a Stata file",
    b"ARROW1": "an Arrow file",
    b"FEA1": "a Feather file",
    b"\x1f\x8b": "a gz file inside a gz file",
}
#: How text begins that is no table, and what it is.
_OTHER_TEXT = {
    b"<!doctype html": "a web page, perhaps one that asks to log in",
    b"<html": "a web page, perhaps one that asks to log in",
    b"<?xml": "an XML file",
    b'{"': "a JSON file",
    b"[{": "a JSON file",
    b"insert into ": "a database's dump",
    b"-- postgresql database dump": "a database's dump",
    b"-- mysql dump": "a database's dump",
    b"@relation": "an ARFF file",
    b"version https://git-lfs": "a pointer of Git LFS to the file",
}
#: Where a tar file says that it is one.
_TAR = (257, b"ustar")
#: Encodings of program text and of host names: they take what a patient's id may hold for something else.
_NO_TEXT = {"unicode_escape", "raw_unicode_escape", "idna", "punycode", "undefined"}
_MARK_BELOW = re.compile("(?<=[\r\n])\ufeff+(?=[^\r\n])")
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def as_utf8(content: bytes, encoding: str, shown: str) -> bytes:
    """Returns the text as UTF-8, by its byte-order mark or else by `encoding`."""
    _refuse_foreign(content, _FOREIGN, shown)
    _refuse_foreign(content[_TAR[0] :], {_TAR[1]: "a tar file"}, shown)
    marked = next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)
    text = _decode(content, marked or encoding, shown)
    if marked is None:
        _refuse_misread(content, text, encoding, shown)
    if "\x00" in text:
        raise DataError(f"extract '{shown}' holds null bytes; set reader.encoding, often utf-16, or send it again")
    # Files that were put together keep the mark of each.
    encoded = _MARK_BELOW.sub("", text).encode("utf-8", errors="replace")
    _refuse_foreign(encoded.lstrip().lower(), _OTHER_TEXT, shown)
    # Old systems end a text with Ctrl-Z.
    return encoded.rstrip(b"\x1a")


def _refuse_foreign(content: bytes, beginnings: dict[bytes, str], shown: str) -> None:
    foreign = next((words for mark, words in beginnings.items() if content.startswith(mark)), None)
    if foreign is not None:
        raise DataError(f"extract '{shown}' is {foreign}, not text of a table; export it as CSV, or set reader.kind")


def _decode(content: bytes, encoding: str, shown: str) -> str:
    try:
        if codecs.lookup(encoding).name.replace("-", "_") in _NO_TEXT:
            raise LookupError
        return content.decode(encoding)
    except UnicodeError as error:
        line = len(content[: getattr(error, "start", 0) + 1].splitlines()) or 1
        raise DataError(
            f"extract '{shown}' is not {encoding} text (line {line:,}); set reader.encoding, often latin-1"
        ) from None
    except (LookupError, ValueError):
        raise DataError(f"extract '{shown}': no encoding {encoding!a}; utf-8 and latin-1 are usual") from None


def _refuse_misread(content: bytes, text: str, encoding: str, shown: str) -> None:
    """Refuses UTF-8 that a single-byte encoding would read without complaint, as other letters."""
    single_byte = len(text) == len(content) and not content.isascii()
    if not single_byte or codecs.lookup(encoding).name == "utf-8":
        return
    try:
        content.decode("utf-8")
    except UnicodeError:
        return
    raise DataError(f"extract '{shown}' is UTF-8 text although reader.encoding says {encoding}; leave that out")
