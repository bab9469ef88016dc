"""What is shown of a result is one document: terminal, Markdown, LaTeX and notebook draw all of it, alike."""

import html
import re
from pathlib import Path

import pytest

import odm
from odm.cli.stats import make_statistics_document
from odm.document import Column, Items, Line, Table, Verbatim, as_latex, as_markdown, as_text
from odm.evaluate.analysis.render_agreement import make_agreement_document
from odm.evaluate.analysis.render_comparison import make_comparison_document
from odm.evaluate.analysis.render_diff import make_differences_document
from odm.evaluate.output.render import make_evaluation_document
from odm.numbers import (
    format_interval,
    format_number,
    format_percent,
    format_percents,
    format_points,
    format_share,
    format_size,
)
from odm.terminal import latex, markdown
from odm.verbs.html import ROWS, draw_document, make_view

ILLUSTRATED = Path(__file__).parents[1] / "fixtures" / "illustrated"


@pytest.fixture(scope="module")
def documents():
    truth, detections = (odm.read(str(ILLUSTRATED / side)) for side in ("groundtruths", "detections"))
    fewer = truth.take(slice(3, None))
    runs = {"old": detections, "new": detections.take(detections.boxes.score > 0.5), "same": detections}
    evaluation = odm.eval(
        truth, detections, "coco", analyze="all", confusion="gt", thresholds="f1", ci=True, replicates=20
    )
    compared = odm.compare(truth, runs, "coco", replicates=20)
    return {
        "eval": make_evaluation_document(evaluation),
        "compare": make_comparison_document(compared, wide=True),
        "agree": make_agreement_document(odm.agree(truth, fewer)),
        "diff": make_differences_document(odm.diff(truth, fewer)),
        "stats": make_statistics_document(odm.stats(truth)),
    }


def texts_of(part):
    """Every text of a part, as it is before it is drawn."""
    if isinstance(part, Table):
        return [*part.titles, *(cell for row in part.cells[:ROWS] for cell in row)]
    if isinstance(part, Line):
        return [part.text]
    return [*part.lines, *([part.title] if isinstance(part, Items) else [])]


@pytest.mark.parametrize("kind", ["eval", "compare", "agree", "diff", "stats"])
def test_every_output_has_all_that_is_in_the_document(documents, kind):
    document = documents[kind]
    parts = [part for section in document for part in section]
    assert any(isinstance(part, Table) and part.rows for part in parts)
    texts = {text for part in parts for text in texts_of(part)}
    in_python = {part.text for part in parts if isinstance(part, Line) and part.python is not None}
    text, marked, page = as_text(document), as_markdown(document), make_view(*draw_document(document))
    paper = as_latex(document).replace("$-$", "-")
    verbatim = {line for part in parts if isinstance(part, Verbatim) for line in part.lines}
    assert [one for one in texts if one not in text] == []
    assert [one for one in texts if (one if one in verbatim else markdown(one)) not in marked] == []
    assert [one for one in texts - in_python if html.escape(one) not in page] == []
    assert [one for one in texts - in_python if (one if one in verbatim else latex(one)) not in paper] == []
    assert text.endswith("\n")
    assert "\n\n\n" not in text


def test_each_part_has_its_own_look():
    columns = [Column("class"), Column("as", left=True), Column("AP", format_percent, group_title="at 0.5")]
    table = Table(columns, [["a|b", "x", 0.5], ["c", "", None]])
    document = [
        [Line("Title", "heading"), table, Line("use --save", python="use save=")],
        [Items(["k: 1"], "List:"), Verbatim(["a  *b*"]), Line("good", "strong")],
        [],
        [Line("better", "verdict")],
    ]
    assert as_text(document) == (
        "Title\n"
        "            at 0.5\n"
        "class  as       AP\n"
        "-----  --  -------\n"
        "a|b    x   50.00 %\n"
        "c                -\n"
        "use --save\n\n"
        "List:\n  k: 1\na  *b*\ngood\n\n"
        "better\n"
    )
    assert as_markdown(document) == (
        "### Title\n\n"
        "| class   | as   |   AP (at 0.5) |\n"
        "|---------|------|---------------|\n"
        "| a\\|b    | x    |       50.00 % |\n"
        "| c       |      |             - |\n\n"
        "use --save\n\n"
        "List:\n- k: 1\n\n"
        "```\na  *b*\n```\n\n"
        "**good**\n\n"
        "better\n"
    )
    page = "".join(draw_document(document))
    assert page.startswith("<p><b>better</b></p><p><b>Title</b></p><table>")
    assert "use save=" in page
    assert "--save" not in page
    assert "<pre>a  *b*</pre>" in page
    assert re.findall(r'<t[hd] class="text">([^<]*)<', page) == ["class", "as", "a|b", "x", "c", ""]


SIGNS = r"\\(?:textbackslash|text\w+|ldots)\{\}|\\[{}$&#_%]|\{[\[\]*]\}|-\{\}(?=-)|\$-\$"
"""What may stand in a text of LaTeX for a sign that it would obey."""


def test_latex_obeys_no_sign_of_a_name():
    hostile = "".join(map(chr, range(32, 127))) + "\\input{x}--- [1] *2* \u2026 \u202e\n"
    columns = [Column(hostile), Column("change", left=False), Column(hostile, group_title=hostile)]
    table = Table(columns, [["[10pt] -- %", "-0.50 to -0.25", hostile]])
    document = [[Line(hostile), table, Line("use --save", python="")], [Items([hostile], hostile)]]
    text = as_latex(document)
    assert "$-$0.50 to $-$0.25" in text
    assert "--save" not in text.replace("-{}-", "--")  # a paper has no options
    assert text.isascii()
    for escaped in (latex(hostile), latex("[10pt] -- %")):
        assert not re.findall(r"[\\{}$&#_%~^<>|`\[\]*]|--", re.sub(SIGNS, "", escaped)), escaped
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [re.sub(SIGNS, "", row).count("&") for row in rows] == [2, 2, 2]
    assert text.count(r"\begin{") == text.count(r"\end{") == 3
    assert r"\cmidrule(lr){3-3}" in text
    assert r"\begin{tabular}{lrr}" in text


def test_latex_has_the_columns_of_the_terminal():
    columns = [Column("class"), Column("one"), Column("two")]
    table = Table(columns, [["a" * 10, "b" * 10, "c" * 10]], drop=[["one"]])
    assert "class & two" in as_latex([[table]], 25)
    assert "class & one & two" in as_latex([[table]])


def test_a_notebook_shows_the_first_rows_of_a_long_table():
    table = Table([Column("n")], [[i] for i in range(ROWS + 5)])
    (page,) = draw_document([[table]])
    assert page.count("<td") == ROWS
    assert "5 more rows" in page
    assert as_text([[table]]).count("\n") == ROWS + 7


def test_what_does_not_fit_is_left_out_and_named_where_the_table_says_so():
    columns = [Column("class"), Column("one"), Column("two")]
    rows = [["a" * 10, "b" * 10, "c" * 10]]
    quiet = Table(columns, rows, drop=[["one"]])
    telling = Table(columns, rows, drop=[["one"]], tells_dropped=True)
    assert "one" not in as_text([[quiet]], 25)
    assert as_text([[telling]], 25).endswith("(not shown: one; --wide\n  shows all)\n")
    assert "not shown" not in as_text([[telling]]) + as_markdown([[telling]])


@pytest.mark.parametrize(
    ("text", "form", "value"),
    [
        ("0.4800", format_number, 0.48),
        ("24.57 %", format_percent, 0.2457),
        ("33.33 %", lambda counts: format_share(*counts), (1, 3)),
        ("-", lambda counts: format_share(*counts), (0, 0)),
        ("+1.25", format_points, 0.0125),
        ("-0.50 to +1.25", format_interval, (-0.005, 0.0125)),
        ("53.78 to 94.59", format_percents, (0.5378, 0.9459)),
        ("640", format_size, 640.0),
        ("1.50", format_size, 1.5),
        ("0.0312", format_size, 0.03125),
        *(("-", form, None) for form in (format_number, format_percent, format_points, format_size)),
        *(("-", form, float("nan")) for form in (format_number, format_percent, format_points)),
        *(("-", form, (None, None)) for form in (format_interval, format_percents)),
        *(("-", form, (float("nan"), float("nan"))) for form in (format_interval, format_percents)),
    ],
)
def test_each_kind_of_number_is_written_in_one_way(text, form, value):
    assert form(value) == text
