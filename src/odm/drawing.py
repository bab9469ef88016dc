"""Figures of Matplotlib, made without its global state: the same data gives the same bytes."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from odm.issues import Log, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


FORMATS = {
    "png": ("Software",),
    "svg": ("Date", "Creator"),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
"""The suffixes of a plot, and for each the metadata to leave out, as they differ by day or by version."""


def check_matplotlib() -> None:
    """Raise UsageError, with the way out, if Matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401, ICN001 -- only to see whether it is there
    except ImportError:
        raise UsageError("plots need Matplotlib: pip install matplotlib") from None


@contextlib.contextmanager
def apply_settings(log: Log, replacement: str) -> Iterator[dict[str, Any]]:
    """Yield the settings of Matplotlib, to be changed, and restore the former ones after the block.

    Characters that the font lacks are then noted in the log; `replacement` says how they are shown.
    """
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings(record=True) as caught_warnings:
        warnings.filterwarnings("always", message="Glyph")
        yield mpl.rcParams  # type: ignore[misc]  # its keys are a list of words
    # A warning: "Glyph 26085 (...) missing from font(s) DejaVu Sans."
    texts = [str(warning.message) for warning in caught_warnings]
    missing = sorted({chr(int(text.split()[1])) for text in texts if text.startswith("Glyph")})
    if missing:
        ellipsis = ", ..." if len(missing) > 5 else ""
        log.note(
            f"plots: the font has no glyphs for {', '.join(missing[:5])}{ellipsis}, which are {replacement}"
        )


def encode(figure: Figure, suffix: str, dpi: int) -> bytes:
    """Return the bytes of a figure as a file of type `suffix`, of `FORMATS`, without date and program."""
    buffer = io.BytesIO()
    omitted_metadata = dict.fromkeys(FORMATS[suffix])  # None leaves a field out
    figure.savefig(buffer, format=suffix, dpi=dpi, metadata=omitted_metadata)
    return buffer.getvalue()
