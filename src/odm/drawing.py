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
def drawing(log: Log, shown: str) -> Iterator[dict[str, Any]]:
    """Apply the settings of Matplotlib for the block, and restore the former ones.

    Characters that the font lacks are noted then, with how they are `shown`.
    """
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings(record=True) as warned:
        warnings.filterwarnings("always", message="Glyph")
        yield mpl.rcParams  # type: ignore[misc]  # its keys are a list of words
    texts = [str(warning.message) for warning in warned]
    missing = sorted({chr(int(text.split()[1])) for text in texts if text.startswith("Glyph")})
    if missing:
        more = ", ..." if len(missing) > 5 else ""
        log.note(f"plots: the font has no glyphs for {', '.join(missing[:5])}{more}, which are {shown}")


def encode(figure: Figure, suffix: str, dpi: int) -> bytes:
    """Return a figure in one of `FORMATS`, without date and program."""
    out = io.BytesIO()
    figure.savefig(out, format=suffix, dpi=dpi, metadata=dict.fromkeys(FORMATS[suffix]))
    return out.getvalue()
