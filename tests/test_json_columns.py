"""Lists of JSON records: the columns and issues do not depend on where the text is cut or how it is decoded."""

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import odm
from odm.formats._shared.json import columns as json_columns
from odm.formats._shared.json.columns import Document
from odm.formats._shared.json.number_lists import decode_numbers
from odm.formats._shared.json.record_types import Field
from odm.formats._shared.text.tokens import parse_floats
from odm.issues import Log

FIELDS = (Field("id", "id", required=True), Field("bbox", "numbers", required=True), Field("s", "number"))

RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.integers(0, 9), st.sampled_from([1.0, "a", True, None])),
            "bbox": st.one_of(st.just([1, 2.5, 3, 4]), st.sampled_from([[1, 2, 3], None, "}, {", [[1]]])),
        },
        optional={"s": st.floats(0, 1), "note": st.sampled_from(["}, {", "]", {"a": {}}, [{}, {}], ":"])},
    ),
    max_size=30,
)


def plain(record):
    """A record with the fields alone, numbers as floats; a slice decides whether it comes typed or not."""
    if not isinstance(record, dict):
        return record
    row = {}
    for field in FIELDS:
        value = record.get(field.key)
        if type(value) in (int, float):
            value = float(value)
        elif isinstance(value, list):
            value = [float(v) if type(v) is int else v for v in value]
        if value is not None and str(value) != "nan":
            row[field.key] = value
    return row


def chunks_of(text, **options):
    """Every record and issue of a text."""
    log = Log()
    records = []
    try:
        document = Document(json_columns.load(text, log, "x"), log, "x", **options)
        for key, _ in document.members():
            n = 0
            for chunk in document.records(FIELDS):
                assert chunk.start == n
                n += chunk.n
                columns = chunk.columns.items()
                found = chunk.records
                if found is None:
                    found = [{k: np.asarray(c)[i].tolist() for k, c in columns} for i in range(chunk.n)]
                records += [(key, plain(record)) for record in found]
    except json_columns.Broken:
        records = []  # how far it was read is of no use to anybody
    return repr(records), [str(issue) for issue in log.issues]


@given(first=RECORDS, second=RECORDS, cut=st.integers(0, 10**6), blanks=st.booleans())
def test_lists_are_read_alike(first, second, cut, blanks):
    text = json.dumps({"one": first, "two": second}, indent=1 if blanks else None).encode()
    if cut % 4 == 0:
        text = text[: cut % (len(text) + 1)]
    whole = chunks_of(text)
    assert chunks_of(text, slice_size=40) == whole
    assert chunks_of(text, fast=False) == whole


@pytest.mark.parametrize("row", [0, 10, 150, 298])
@pytest.mark.parametrize("size", [100, 10**6])
def test_a_float_id_is_placed_in_the_whole_list(row, size):
    records = [{"id": i, "bbox": [i, 1, 2, 3]} for i in range(300)]
    records[row]["id"] = float(row)
    document = Document(json.dumps({"one": records}).encode(), Log(), "x", slice_size=size)
    chunks = [chunk for _ in document.members() for chunk in document.records(FIELDS)]
    assert [chunk.written_float for chunk in chunks if chunk.written_float] == [{"id": row}]
    assert np.concatenate([chunk.columns["id"] for chunk in chunks]).tolist() == list(range(300))


@pytest.mark.parametrize(
    ("begin", "end", "levels"), [("[", "]", 1), ('{"a":', "}", 1), ('[1, {"b": [', '], "c": {}}, "]["]', 3)]
)
def test_how_deep_a_value_may_be_nested(tmp_path, begin, end, levels):
    """Five hundred levels in every version of Python, wherever the value stands; brackets in texts do not count."""
    for n, deep in ((500 // levels, False), (500 // levels + 1, True), (30_000, True)):
        nest = begin * n + "0" + end * n
        box = f'"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5], "text": "{"[" * 600}"'
        places = {
            "record": ("", f', "x": {nest}'),
            "outermost": (f'"x": {nest}, ', ""),
            "odd record": ("", f', "bbox": [1, 1, 5, 5], "x": {nest}'),
            "broken": ("", f', "x": {nest}, '),
        }
        for place, (top, more) in places.items():
            path = tmp_path / "a.json"
            path.write_text(
                f'{{{top}"images": [{{"id": 1, "file_name": "a"}}], "categories": [{{"id": 1, "name": "c"}}], '
                f'"annotations": [{{"id": 1, {box}{more}}}]}}'
            )
            log = Log()
            odm.validate(path, format="coco", log=log)
            assert (log.counts["json-too-deep"] == 1) == deep, (place, n)
            assert not deep or "json-syntax" not in log.counts, (place, n)
        line = tmp_path / "a.jsonl"
        line.write_text(
            f'{{"filename": "a", "height": 9, "width": 9, "x": {nest}, "detection": {{"instances": []}}}}\n'
        )
        log = Log()
        odm.validate(line, format="odvg", log=log)
        assert (log.counts["json-too-deep"] == 1) == deep, n


@pytest.mark.parametrize(
    "tokens",
    [
        ["0", "1", "-1.5", "1e3", "2E-3", "-0.0", "0.1", "123456789012345678901234567890", "1e-320"],
        *(["1", odd, "2"] for odd in ("-0", "+1", "01", "1.", ".5", "1_0", "nan", "inf", "1e999", "", "x", "1,2", "[1]")),
        *([odd] for odd in ("-0", "", "1,2", "null", "true")),
        [],
    ],
)  # fmt: skip
def test_tokens_are_decoded_as_python_reads_them_or_not_at_all(tokens):
    values, not_numbers = parse_floats([token.encode() for token in tokens])
    decoded = decode_numbers([token.encode() for token in tokens])
    usual = tokens and all(
        re.fullmatch(r"-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?", t) for t in tokens
    )
    if not usual or "-0" in tokens or not np.isfinite(values).all():
        assert decoded is None
    else:
        assert not len(not_numbers)
        assert decoded.tobytes() == values.tobytes()
