# ruff: noqa: E501 - one case a line reads best
"""Files as hospitals send them: small generators of text that is broken, odd or harmless, and what must come of each.

One way to write a file serves three uses: an extract, a label file and a batch to be scored. `lines` is a sound file,
header first; a maker returns the bytes that arrive instead.
"""

from __future__ import annotations

import codecs
import gzip
from collections.abc import Callable
from dataclasses import dataclass

Lines = list[str]
Make = Callable[[Lines], bytes]


@dataclass(frozen=True)
class Refused:
    """The file as a whole is refused with one sentence."""

    says: str


@dataclass(frozen=True)
class Taken:
    """The file is read: rows that are set aside, rows that repeat a patient, whether the site is stopped all the same."""

    aside: int = 0
    duplicates: int = 0
    stopped: bool = False
    says: str = ""
    more: int = 0


Outcome = Refused | Taken


@dataclass(frozen=True)
class Way:
    """A way to write a file; a batch is taken as an extract is unless it says otherwise."""

    name: str
    make: Make
    extract: Outcome
    batch: Outcome | None = None
    labels: Outcome | None = None


def joined(lines: Lines, end: str = "\n") -> bytes:
    return (end.join(lines) + end).encode()


def with_line(place: int, change: Callable[[str], str]) -> Make:
    """Rewrites one line; 1 is the first patient's."""
    return lambda lines: joined([*lines[:place], change(lines[place]), *lines[place + 1 :]])


def inserted(place: int, *more: str) -> Make:
    return lambda lines: joined([*lines[:place], *more, *lines[place:]])


def each_line(change: Callable[[str], str], *, header: bool = False) -> Make:
    return lambda lines: joined([change(lines[0]) if header else lines[0], *map(change, lines[1:])])


def blank_fields(lines: Lines) -> str:
    return "," * lines[0].count(",")


SOUND = Taken()


def foreign(name: str, content: bytes, says: str) -> Way:
    return Way(name, lambda _: content, Refused(says))


#: What is said of bytes that no program of a hospital writes as a table.
BINARY = "holds null bytes|not utf-8 text"

FOREIGN = [
    foreign("empty", b"", "is empty"), foreign("one_line_break", b"\n", "is empty"), foreign("blank_lines", b"\n\r\n \n\t\n", "is empty"),
    foreign("byte_order_mark_alone", codecs.BOM_UTF8, "is empty"), foreign("ctrl_z_alone", b"\x1a", "is empty"),
    foreign("zip", b"PK\x03\x04" + bytes(range(99)), "an Excel or zip file"), foreign("empty_zip", b"PK\x05\x06" + bytes(18), BINARY),
    foreign("old_excel", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99), "an old Excel file"), foreign("pdf", b"%PDF-1.7\n", "a PDF file"),
    foreign("parquet", b"PAR1" + bytes(40) + b"PAR1", "a Parquet file"), foreign("sqlite", b"SQLite format 3\x00" + bytes(84), "a SQLite database"),
    foreign("bzip2", b"BZh91AY&SY" + bytes(20), BINARY), foreign("xz", b"\xfd7zXZ\x00" + bytes(20), BINARY),
    foreign("seven_zip", b"7z\xbc\xaf\x27\x1c" + bytes(20), BINARY), foreign("rar", b"Rar!\x1a\x07\x00", BINARY),
    foreign("zstd", b"\x28\xb5\x2f\xfd" + bytes(20), BINARY), foreign("png", b"\x89PNG\r\n\x1a\n" + bytes(20), BINARY),
    foreign("jpeg", b"\xff\xd8\xff\xe0" + bytes(20), BINARY),
    foreign("hdf5", b"\x89HDF\r\n\x1a\n", BINARY),
    foreign("login_page", b"<!DOCTYPE html>\n<html><body>Log in, please</body></html>", "a web page or an XML file, perhaps a page that asks to log in"),
    foreign("login_page_after_blanks", b"\n\n  <HTML><head/></HTML>", "a web page"), foreign("xml", b"<?xml version='1.0'?><a/>", "an XML file"),
    foreign("json_list", b'[{"patient_id": 1}]', "a JSON file"), foreign("json_lines", b'{"patient_id": 1}\n{"patient_id": 2}\n', "a JSON file"),
    foreign("sas_transport", b"HEADER RECORD*******LIBRARY" + bytes(99), BINARY), foreign("stata", b"<stata_dta><header>" + bytes(99), BINARY),
    foreign("feather", b"ARROW1\x00\x00" + bytes(99), BINARY), foreign("old_feather", b"FEA1" + bytes(99), BINARY),
    foreign("tar", b"a.csv" + bytes(252) + b"ustar" + bytes(250), BINARY), foreign("dump", b"INSERT INTO patients VALUES (1, 66);\n" * 9, "a database's dump"),
    foreign("gz_of_nothing", gzip.compress(b""), "is empty"), foreign("gz_head_alone", b"\x1f\x8b", "damaged or truncated gz"),
    foreign("gz_noise", b"\x1f\x8b\x08\x00" + b"\xff" * 80, "damaged or truncated gz"),
    foreign("sas", bytes(12) + b"\xc2\xea\x81\x60\xb3\x14\x11\xcf" + bytes(99), BINARY), foreign("access", b"\x00\x01\x00\x00Standard Jet DB\x00" + bytes(99), BINARY),
    foreign("r", b"RDX3\nX\n" + bytes(99), BINARY), foreign("avro", b"Obj\x01" + bytes(99), BINARY), foreign("orc", b"ORC" + bytes(99), BINARY),
    foreign("numpy", b"\x93NUMPY\x01\x00" + bytes(99), BINARY), foreign("compress", b"\x1f\x9d\x90" + bytes(99), BINARY),
    foreign("pickle", b"\x80\x04\x95" + bytes(99), "not utf-8"), foreign("dbase", b"\x03\x7a\x01\x01" + bytes(99), "holds null bytes"), foreign("storage_error", b"<Error><Code>AccessDenied</Code></Error>", "an XML file"),
    foreign("markdown", b"| patient_id | age |\n|---|---|\n", r"'\|' in its header"),
    foreign("gz_of_pdf", gzip.compress(b"%PDF-1.7\n"), "a PDF file"), foreign("marked_xml", codecs.BOM_UTF8 + b"<?xml version='1.0'?><a/>", "an XML file"), foreign("quotes_alone", b'"""""""\n', "a stray quotation mark"),
    foreign("nul_bytes_alone", bytes(100), "holds null bytes"), foreign("one_word", b"\xc3", "not utf-8"),
]  # fmt: skip

UNREADABLE = [
    Way("gz_twice", lambda lines: gzip.compress(gzip.compress(joined(lines))), Refused("a gz file inside a gz file")),
    Way("gz_truncated", lambda lines: gzip.compress(joined(lines))[:-9], Refused("damaged or truncated gz")),
    Way("gz_with_more_behind", lambda lines: gzip.compress(joined(lines)) + b"garbage" * 10, Refused("damaged or truncated gz")),
    Way("ebcdic", lambda lines: joined(lines).decode().encode("cp500"), Refused("not utf-8 text .line 1.")),
    Way("shift_jis", lambda lines: joined([*lines[:5], "\u60a3\u8005" + lines[5], *lines[6:]]).decode().encode("shift_jis"), Refused("not utf-8 text .line 6.")),
    Way("utf_32_cut", lambda lines: joined(lines).decode().encode("utf-32")[:-3], Refused("not utf-32 text")),
    Way("half_a_surrogate", lambda lines: codecs.BOM_UTF16_LE + joined(lines).decode().encode("utf-16-le") + b"\x00\xd8", Refused("not utf-16 text")),
    Way("null_bytes_behind", lambda lines: joined(lines) + bytes(512), Refused("holds null bytes")),
    Way("a_line_break_in_the_header", lambda lines: joined([f'"{lines[0].split(",")[0]}\n(id)",{lines[0].partition(",")[2]}', *lines[1:]]), Refused("header has a stray quotation mark")),
    Way("gz_with_a_wrong_sum", lambda lines: gzip.compress(joined(lines))[:-8] + bytes(8), Refused("damaged or truncated gz")),
    Way("utf_16_without_a_mark", lambda lines: joined(lines).decode().encode("utf-16-le"), Refused("holds null bytes")),
    Way("latin_1", with_line(3, lambda line: line.replace("P", "Pé", 1)), SOUND),
    Way("latin_1_bytes", lambda lines: joined(lines).replace(b"P00002", b"P\xe902"), Refused("not utf-8 text .line 4.")),
    Way("latin_1_bytes_and_cr", lambda lines: joined(lines, "\r").replace(b"P00002", b"P\xe902"), Refused("not utf-8 text .line 4.")),
    Way("two_encodings", lambda lines: joined(lines).replace(b"P00002", b"P\xe902").replace(b"P00003", "Pé3".encode()), Refused("not utf-8 text .line 4.")),
    Way("cut_inside_a_letter", lambda lines: joined(lines) + b"\xc3", Refused("not utf-8 text .line 102.|not utf-8 text .line 101.")),
    Way("odd_utf_16", lambda lines: codecs.BOM_UTF16_LE + joined(lines).decode().encode("utf-16-le")[:-1], Refused("not utf-16 text")),
    Way("a_null_byte", with_line(4, lambda line: line + "\0"), Refused("holds null bytes")),
    Way("a_name_twice", lambda lines: joined([f"{lines[0]},{lines[0].split(',')[0]}", *(f"{line},x" for line in lines[1:])]), Refused("gives 1 name twice")),
    Way("two_names_twice", lambda lines: joined([f"{lines[0]},{lines[0]}", *(f"{line},{line}" for line in lines[1:])]), Refused("names twice")),
    Way("a_quote_in_the_header", lambda lines: joined([f'"{lines[0]}', *lines[1:]]), Refused("header has a stray quotation mark")),
    Way("values_without_a_name", lambda lines: joined([f"{lines[0]},", *(f"{line},5" for line in lines[1:])]), Refused("1 columns hold values and have no name")),
    Way("semicolons", lambda lines: joined(lines).replace(b",", b";"), Refused("and ';' in its header; set reader.separator")),
    Way("tabs", lambda lines: joined(lines).replace(b",", b"\t"), Refused("a tab in its header")),
    Way("pipes", lambda lines: joined(lines).replace(b",", b"|"), Refused("'|' in its header".replace("|", r"\|"))),
    Way("title_above_the_header", lambda lines: b"Report of all patients\n" + joined(lines), Refused("101 lines are not records"),
        batch=Taken(aside=101, stopped=True, more=1, says="101 lines are not records")),
]  # fmt: skip


def broken_lines(name: str, make: Make, says: str, *, aside: int = 1, more: int = 0) -> Way:
    """Lines that are no records: an extract and a label file are refused, a batch goes on without them."""
    return Way(name, make, Refused(says), batch=Taken(aside=aside, more=more, says=says))


BROKEN_LINES = [
    broken_lines("stray_quote", with_line(9, lambda line: '"' + line), r"1 line is not a record \(line 10\): 1 with a quotation mark"),
    broken_lines("stray_quotes_far_apart", lambda lines: joined([*lines[:9], '"' + lines[9], *lines[10:22], '"' + lines[22], *lines[23:]]), r"2 lines are not records .*\(lines 10, 23\)", aside=2),
    broken_lines("stray_quote_in_the_last_field", with_line(9, lambda line: line.rpartition(",")[0] + ',"x'), r"\(line 10\): 1 with a quotation mark"),
    broken_lines("text_after_a_quote", with_line(9, lambda line: line.rpartition(",")[0] + ',"x"y'), r"\(line 10\): 1 with a quotation mark"),
    broken_lines("unclosed_at_the_end", lambda lines: joined([*lines[:-1], '"' + lines[-1]]), r"\(line 101\): 1 with a quotation mark"),
    broken_lines("line_break_in_a_field", with_line(5, lambda line: line.rpartition(",")[0] + ',"a\nb"'), r"2 lines are not records .*\(lines 6, 7\)", aside=2, more=1),
    broken_lines("two_line_breaks_in_a_field", with_line(5, lambda line: line.rpartition(",")[0] + ',"a\n\nb"'), r"2 lines are not records .*\(lines 6, 8\)", aside=2, more=1),
    broken_lines("carriage_return_in_a_field", with_line(5, lambda line: line.replace(",", ",\r", 1)), r"not (a record|records) \(lines? (6, )?7\): \d with other than", aside=2, more=1),
    broken_lines("one_field_more", with_line(7, lambda line: line + ",1"), r"\(line 8\): 1 with other than the header's"),
    broken_lines("one_field_less", with_line(7, lambda line: line.rpartition(",")[0]), r"\(line 8\): 1 with other than the header's"),
    broken_lines("a_separator_more", with_line(7, lambda line: line + ","), r"\(line 8\)"),
    broken_lines("a_decimal_comma", with_line(7, lambda line: line + ",5"), r"\(line 8\)"),
    broken_lines("two_records_in_a_line", lambda lines: joined([*lines[:7], lines[7] + lines[8], *lines[9:]]), r"\(line 8\)", aside=1, more=-1),
    broken_lines("cut_at_the_end", lambda lines: joined([*lines[:-1], lines[-1].split(",")[0]]), r"\(line 101\)"),
    broken_lines("rows_affected", inserted(101, "(100 rows affected)"), r"\(line 102\)", more=1),
    broken_lines("end_of_file", inserted(101, "EOF"), r"\(line 102\)", more=1),
    broken_lines("a_remark", inserted(50, "# exported again from here"), r"\(line 51\)", more=1),
    broken_lines("a_conflict_of_versions", inserted(50, "<<<<<<< HEAD"), r"\(line 51\)", more=1),
    broken_lines("a_page_break", inserted(50, "Page 2 of 3"), r"\(line 51\)", more=1),
    broken_lines("a_rule_below_the_header", inserted(1, "-" * 40), r"\(line 2\)", more=1),
    broken_lines("the_end_of_a_spool", inserted(101, "SQL> spool off"), r"\(line 102\)", more=1),
    broken_lines("a_wide_comma", with_line(5, lambda line: line.replace(",", "\uff0c", 1)), r"\(line 6\)"),
    broken_lines("a_backslash_and_a_quote", with_line(5, lambda line: line.rpartition(",")[0] + ',"a\\"b"'), r"\(line 6\): 1 with a quotation mark"),
    broken_lines("six_of_them", lambda lines: joined([*lines[:90], *(line.split(",")[0] for line in lines[90:96]), *lines[96:]]), r"6 lines are not records .*\(lines 91, 92, 93, 94, 95 and 1 more\)", aside=6),
    Way("a_separator_more_everywhere", each_line(lambda line: line + ","), Refused("100 lines are not records"), batch=Taken(aside=100, stopped=True)),
    Way("decimal_commas_everywhere", each_line(lambda line: line + ",5"), Refused("100 lines are not records"), batch=Taken(aside=100, stopped=True)),
    Way("quotes_that_open_everywhere", each_line(lambda line: '"' + line), Refused("100 lines are not records"), batch=Taken(aside=100, stopped=True)),
]  # fmt: skip

HARMLESS = [
    Way(name, make, SOUND) for name, make in {
        "as_it_is": joined, "no_line_break_at_the_end": lambda lines: joined(lines)[:-1],
        "zeros_behind_gz": lambda lines: gzip.compress(joined(lines)) + bytes(512), "two_byte_order_marks": lambda lines: codecs.BOM_UTF8 * 2 + joined(lines),
        "byte_order_mark": lambda lines: codecs.BOM_UTF8 + joined(lines), "utf_16": lambda lines: joined(lines).decode().encode("utf-16"),
        "utf_16_big": lambda lines: codecs.BOM_UTF16_BE + joined(lines).decode().encode("utf-16-be"), "utf_32": lambda lines: joined(lines).decode().encode("utf-32"),
        "crlf": lambda lines: joined(lines, "\r\n"), "cr": lambda lines: joined(lines, "\r"),
        "mixed_ends": lambda lines: joined(lines[:50], "\r\n") + joined(lines[50:], "\n"), "three_ends": lambda lines: joined(lines[:30], "\r") + joined(lines[30:60], "\r\n") + joined(lines[60:]),
        "gz": lambda lines: gzip.compress(joined(lines)), "gz_in_two_parts": lambda lines: gzip.compress(joined(lines[:50])) + gzip.compress(joined(lines[50:])),
        "two_files_with_marks": lambda lines: codecs.BOM_UTF8 + joined(lines[:50]) + codecs.BOM_UTF8 + joined(lines[50:]),
        "ctrl_z": lambda lines: joined(lines) + b"\x1a",
        "blank_lines_between": inserted(40, "", "   ", "\t"), "blank_lines_above": lambda lines: b"\n\n" + joined(lines), "blank_lines_below": lambda lines: joined(lines) + b"\n\n\n",
        "lines_of_separators": lambda lines: joined([*lines, blank_fields(lines), blank_fields(lines)]), "lines_of_quotes": lambda lines: joined([*lines, '"",""']),
        "separators_at_every_end": each_line(lambda line: line + ",,,", header=True), "one_separator_at_every_end": each_line(lambda line: line + ",", header=True),
        "all_quoted": each_line(lambda line: ",".join(f'"{field}"' for field in line.split(",")), header=True), "spaces_around": each_line(lambda line: ",".join(f" {field} " for field in line.split(",")), header=True),
        "hard_spaces_around": each_line(lambda line: ",".join(f"\u00a0{field}\u00a0" for field in line.split(","))), "names_quoted": lambda lines: joined([",".join(f'"{name}"' for name in lines[0].split(",")), *lines[1:]]),
        "blank_carriage_returns": lambda lines: joined(lines, "\r\r\n"), "carriage_return_at_the_end": lambda lines: joined(lines) + b"\r", "a_quote_at_the_end": lambda lines: joined(lines) + b'"\n',
        "marked_and_quoted": lambda lines: codecs.BOM_UTF8 + each_line(lambda line: ",".join(f'"{field}"' for field in line.split(",")), header=True)(lines),
    }.items()
]  # fmt: skip

NO_PATIENTS = [
    Way("header_twice", lambda lines: joined([*lines[:60], lines[0], *lines[60:]]), Taken(aside=1, more=1, says="1 of 101 rows repeat the header")),
    Way("header_thrice", lambda lines: joined([*lines[:30], lines[0], *lines[30:60], lines[0], *lines[60:]]), Taken(aside=2, more=2, says="2 of 102 rows repeat the header")),
    Way("marked_header_twice", lambda lines: joined([*lines[:60], "\ufeff" + lines[0], *lines[60:]]), Taken(aside=1, more=1, says="1 of 101 rows repeat the header")),
    Way("footer", lambda lines: joined([*lines, "Total: 100" + blank_fields(lines)]), Taken(aside=1, more=1, says="1 of 101 rows hold totals")),
    Way("footer_of_sums", lambda lines: joined([*lines, ",".join(["TOTAL", *["812"] * lines[0].count(",")])]), Taken(aside=1, more=1, says="rows hold totals")),
    Way("two_footers", lambda lines: joined([*lines, "Summe" + blank_fields(lines), "Mean" + blank_fields(lines)]), Taken(aside=2, more=2, says="2 of 102 rows hold totals")),
    Way("footer_in_quotes", lambda lines: joined([*lines, '"Total: 100 patients, all"' + blank_fields(lines)]), Taken(aside=1, more=1, says="rows hold totals")),
    Way("footer_below_blanks", lambda lines: joined([*lines, "", "Rows: 100" + blank_fields(lines)]), Taken(aside=1, more=1, says="rows hold totals")),
    Way("sums_in_the_midst", lambda lines: joined([*lines[:50], "Subtotal," + lines[50].partition(",")[2], *lines[50:]]), Taken(aside=1, more=1, says="1 of 101 rows hold totals")),
    Way("means_at_the_top", lambda lines: joined([lines[0], "Mean: 66.2," + lines[1].partition(",")[2], *lines[1:]]), Taken(aside=1, more=1, says="1 of 101 rows hold totals")),
    *(Way(f"footer_{word}", lambda lines, word=word: joined([*lines, word + "," + lines[1].partition(",")[2]]), Taken(aside=1, more=1, says="1 of 101 rows hold totals"))
      for word in ("Moyenne", "Durchschnitt:", "Max", "Gesamtsumme", "SD", "Summary", "All", "\u0418\u0442\u043e\u0433\u043e", "\u5408\u8a08", "Overall: 100")),
    Way("a_sum_above", lambda lines: joined([*lines[:9], "Minimum," + lines[1].partition(",")[2], *lines[9:]]), Taken(aside=1, more=1, says="1 of 101 rows hold totals")),
    Way("an_id_that_nobody_sees", with_line(12, lambda line: "\u200b\u200b," + line.partition(",")[2]), Taken(aside=1, says="rows have an id that was damaged")),
    Way("an_id_of_a_spreadsheet_s_error", with_line(12, lambda line: "#N/A," + line.partition(",")[2]), Taken(aside=1, says="rows have an id that was damaged")),
    Way("another_footer", lambda lines: joined([*lines, "printed by Dr Grey" + blank_fields(lines)]), Taken(aside=1, more=1, says="1 of 101 rows hold totals or end the table")),
    Way("an_id_and_nothing", with_line(12, lambda line: line.split(",")[0] + "," * line.count(",")), Taken(aside=1, says="1 of 100 rows hold an id and no value")),
    Way("a_letter_was_lost", with_line(12, lambda line: "P\ufffd" + line[2:]), Taken(aside=1, says="1 of 100 rows have an id that was damaged")),
    Way("a_bell_in_an_id", with_line(12, lambda line: "P\x07" + line[2:]), Taken(aside=1, says="rows have an id that was damaged")),
    Way("no_id", with_line(12, lambda line: "," + line.partition(",")[2]), Taken(aside=1, says="1 of 100 rows have no patient id")),
    Way("id_of_spaces", with_line(12, lambda line: "   ," + line.partition(",")[2]), Taken(aside=1, says="1 of 100 rows have no patient id")),
    Way("id_as_a_spreadsheet_writes_text", with_line(12, lambda line: '="007",' + line.partition(",")[2]), Taken(aside=1, says="cannot be read as an id")),
    *(Way(f"unknown_patients_called_{word}", lambda lines, word=word: joined([*lines[:11], *(word + "," + line.partition(",")[2] for line in lines[11:14]), *lines[14:]]),
          Taken(aside=3, says="3 of 100 rows have the same mark for an unknown patient")) for word in ("-", "unknown", "NA", "?", "Null")),
    Way("a_row_twice", lambda lines: joined([*lines, lines[5]]), Taken(duplicates=1, more=1, says="1 of 101 rows repeat a patient \\(patients whose rows differ: 0")),
    Way("a_row_thrice", lambda lines: joined([*lines, lines[5], lines[5]]), Taken(duplicates=2, more=2, says="2 of 102 rows repeat a patient")),
    Way("nine_rows_twice", lambda lines: joined([*lines, *lines[1:10]]), Taken(duplicates=9, more=9, says="9 of 109 rows repeat a patient")),
    Way("a_row_twice_with_spaces", lambda lines: joined([*lines, lines[5].replace(",", " ,", 1)]), Taken(duplicates=1, more=1, says="repeat a patient")),
]  # fmt: skip

WAYS = [*FOREIGN, *UNREADABLE, *BROKEN_LINES, *HARMLESS, *NO_PATIENTS]

#: Ids that must come through as they are, each once.
STRANGE_IDS = [
    "007", "0", "-12", "+49", "=1+1", "@home", "1e5", "1E5", "1.0", "1.50", "9007199254740993", "123456789012345678901234567890", "Müller", "患者7", "a b",
    "a\u00a0b", "'quoted", "''", "nan2", "NULL1", "true", "1/2", "2024-01-01", "P;1", "P|1", "P\\1", "{x}", "[x]", "<b>", "%s", "${HOME}", "../x", "x" * 500,
    "e4eaaaf2-d142-11e1-b3e4-080027620cdd", "É", "E\u0301", "\u200bx", "a\u2028b", "a\u2029b", "a\x85b", "a\u00adb", "NA", "NULL", "None", "🙂", "a'b", 'a"b', "0x1F", "1_000", "12:30", "١٢", "#1", "--", "~", "1,5", "a,b",
]  # fmt: skip

#: Texts that no column of numbers can hold.
NO_NUMBERS = [
    "old", "4.5 mg/L", "4,5", "1.234,5", "12.", "<0.1", ">100", "~5", "€ 12", "$12", "12 %", "12%", "1/2", "1951-03-02", "02.03.1951", "3/2/51", "inf", "-inf", "Infinity", "nan", "NaN", "NA",
    "N/A", "#N/A", "#REF!", "#DIV/0!", "NULL", "None", ".", "-", "?", "unknown", "1e999", "-1e999", "0x1F", "1_000", "1 000", "1'000", "٤٥", "４５", "½", "4.5.6", "--4", "4-", "=4+1", "=A1", "true", "yes",
    "4.5*", "4.5 (H)", "(4.5)", "'4.5", "4\u00a0000", "1e", "e5", "+", "{}", "[4.5]", "4.5;4.6", "four", "\u22124.5", "4·5", "x" * 400,
]  # fmt: skip
#: Of those, what is a number after all.
NUMBERS_AFTER_ALL = frozenset(("12.",))
