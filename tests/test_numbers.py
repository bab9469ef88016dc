"""Numbers become the text that Python would write, whole columns at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from one_format import WRITTEN

import odm
from odm.formats import FORMATS
from odm.formats._shared.text import tokens as text_tokens
from odm.formats._shared.text.numbers import to_decimals, to_fixed, to_fixed_cells
from odm.formats._shared.text.tokens import format_pages
from odm.tables import Dataset

NUMBERS = st.lists(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(-2, 2),
        st.integers(-(10**7), 10**7).map(lambda n: n / 1000),
        st.integers(-(10**16), 10**16).map(float),
        st.integers(0, 2**30).map(lambda n: (n + 0.5) / 10**6),  # halves of the last place
        st.sampled_from([0.0, -0.0, 1e-4, 9.9999e-5, 99999.9999995, 1e15, 1e16, 0.1 + 0.2, 1e22, 5e-324]),
    ),
    max_size=20,
)


def shortest(value):
    text = repr(value)
    return "0" if value == 0 else text.removesuffix(".0")


def with_places(value, places):
    text = f"{value:.{places}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


@given(NUMBERS)
def test_decimals_are_the_shortest_that_read_back(numbers):
    values = np.array(numbers, np.float64)
    texts = to_decimals(values)
    # Whole numbers have no exponent where all of a column are whole.
    assert [float(text) for text in texts] == numbers
    assert [shortest(float(text)) for text in texts] == [shortest(value) for value in numbers]
    for text, value in zip(texts, numbers, strict=True):
        assert len(text) <= len(shortest(value)) or float(value).is_integer()
        assert not text.endswith(".0")


@given(NUMBERS, st.integers(1, 14))
def test_fixed_places_are_pythons(numbers, places):
    values = np.array(numbers, np.float64)
    expected = [with_places(value, places) for value in numbers]
    assert to_fixed(values, places) == expected
    assert to_fixed_cells(values, places).astype(str).tolist() == expected


@pytest.mark.parametrize("at_a_time", [0, 1, 5, 2**15])
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 4), st.text("aé ☃", max_size=4), st.integers(0, 999)), max_size=20
    ),
    sep=st.sampled_from([" ", "\t", ", "]),
    is_sorted=st.booleans(),
)
def test_pages_are_the_lines_of_each_image(at_a_time, rows, sep, is_sorted):
    rows = sorted(rows, key=lambda row: row[0]) if is_sorted else rows
    image = np.array([row[0] for row in rows], np.int32)
    columns = [[row[1] for row in rows], np.array(to_decimals(np.array([row[2] for row in rows])), np.bytes_)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tokens, "ROWS", at_a_time)
        found = list(format_pages(5, image, columns, sep))
    assert found == [
        "".join(f"{text}{sep}{n}\n" for i, text, n in rows if i == number).encode() for number in range(5)
    ]


def boxes_of(ltwh, *, det=False, **corners):
    n = 40
    return Dataset.from_arrays(
        images=["a.jpg", "b.jpg"], width=[640] * 2, height=[640] * 2, categories=["x"],
        image=np.arange(n) * 2 // n, category=np.zeros(n, int), ltwh=ltwh, **corners,
        score=np.linspace(0.1, 0.9, n) if det else None,
    )  # fmt: skip


@pytest.mark.parametrize("det", [False, True], ids=["gt", "det"])
@pytest.mark.parametrize("name", [n for n, f in WRITTEN.items() if "wh" in f.keeps])
def test_widths_that_a_file_gives_are_written_bit_for_bit(name, det, tmp_path):
    rng = np.random.default_rng(1)
    given = rng.uniform(0, 300, (40, 4)).astype(np.float32).astype(np.float64)  # of some 15 digits each
    suffix = FORMATS[name].suffixes[0] if FORMATS[name].single else ""
    data = boxes_of(given, det=det)
    for target in (tmp_path / f"once{suffix}", tmp_path / f"twice{suffix}"):
        odm.write(data, target, name)
        data = odm.read(target, name, kind=data.kind)
        numbers = np.hstack([data.boxes.xyxy[:, :2], data.boxes.wh])
        assert sorted(map(tuple, numbers.tolist())) == sorted(map(tuple, given.tolist()))


def test_widths_that_no_file_gives_are_written_short():
    low, wh = np.full((40, 2), 0.1), np.full((40, 2), 0.3)
    derived = boxes_of(None, xyxy=np.hstack([low, low + wh]))
    assert derived.boxes.wh_given is None
    assert derived.boxes.wh[0, 0] == 0.30000000000000004
    assert (derived.boxes.short_wh() == 0.3).all()
    given = boxes_of(np.hstack([low, derived.boxes.wh]))
    assert (given.boxes.short_wh() == derived.boxes.wh).all()
    half = replace(given.boxes, wh_given=given.boxes.wh_given & [True, False])
    assert half.short_wh()[0].tolist() == [0.30000000000000004, 0.3]
