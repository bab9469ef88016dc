"""The options that only commands have: how a result is shown, and how much is printed beside it."""

from __future__ import annotations

from odm.verbs.options import OUTPUT, Options, option

GITHUB = "github"
"""The output whose messages are annotations of GitHub Actions."""
SHOWN = 100
"""How many issues are printed unless ``--max-errors`` says otherwise."""
PER_CODE = 3
PER_CODE_VALIDATE = 10
"""How many of one code, unless ``--max-per-code`` says otherwise."""


class WideOptions(Options, heading=OUTPUT):
    """How wide a table may be."""

    wide: bool = option("Show all columns of a table, even if it is wider than the terminal.", default=False)


class MarkdownOptions(Options, heading=OUTPUT):
    """The results as a file for a CI job."""

    markdown: str | None = option(
        "Also write the results to FILE as Markdown.", "FILE", default=None, path="written"
    )


class MessageOptions(Options, heading=OUTPUT):
    """How much is printed beside the result."""

    quiet: bool = option(
        "Print only results, errors, and warnings that cast doubt on the results.",
        default=False,
        short=("-q",),
    )
    verbose: bool = option("Print all notes instead of the first three.", default=False, short=("-v",))
    max_errors: int = option(
        "Print at most N errors and warnings; all are counted.", "N", default=SHOWN, bounds=(0, None)
    )
    max_per_code: int | None = option(
        f"Print at most N issues with the same code. [default: {PER_CODE}; validate: {PER_CODE_VALIDATE}]",
        "N",
        default=None,
        bounds=(0, None),
    )
