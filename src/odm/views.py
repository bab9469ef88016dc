"""Display of public values: columns for pandas and polars, HTML in a notebook, pages and plots.

The code that makes them imports the modules of the values, so `import_late` imports it only when a value is
to be displayed.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")
Path = str | os.PathLike[str]
HEIGHT = 760
"""The height of a page in a notebook, in pixels."""


def import_late(module: str) -> Any:
    """Import a module of `odm` that itself imports the caller's module."""
    return importlib.import_module(f"odm.{module}")


def import_optional(name: str) -> Any:
    """Import an optional library. Raises UsageError that says how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise import_late("issues").UsageError(f"this needs {name}: pip install {name}") from None


class TableMixin:
    """Base of tables: rows with named columns."""

    __slots__: tuple[str, ...] = ()

    def columns(self) -> dict[str, Any]:
        """The values of each column, by its name; None where there is none."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``. Raises UsageError if pandas is not installed."""
        return import_optional("pandas").DataFrame(self.columns())

    def to_polars(self) -> Any:
        """The table as a ``polars.DataFrame``. Raises UsageError if polars is not installed."""
        return import_optional("polars").DataFrame(self.columns(), strict=False)


class Rows(list[T], TableMixin):
    """A list whose members are rows of a table, each with a value for every one of `names`."""

    def __init__(self, members: Iterable[T] = (), names: Iterable[str] = ()) -> None:
        super().__init__(members)
        self.names = tuple(names)

    def columns(self) -> dict[str, list[Any]]:
        """The values of each column, by its name; None where there is none, or an empty text."""
        rows = [member if isinstance(member, dict) else member.to_dict() for member in self]  # type: ignore[attr-defined]
        return {name: [None if (v := row.get(name)) == "" else v for row in rows] for name in self.names}


class WebPage(msgspec.Struct, frozen=True):
    """A page: the path that it was written to, or its HTML, which a notebook shows in a frame of its own."""

    path: str = ""
    html: str = ""

    def __repr__(self) -> str:
        return f"<page {self.path!r}>" if self.path else f"<page of {len(self.html)} characters, not written>"

    def __fspath__(self) -> str:
        if not self.path:
            raise import_late("issues").UsageError("this page was not written: name a file to write it to")
        return self.path

    def _repr_html_(self) -> str | None:
        """Return the page in a frame, for notebooks; None if it was written to a file."""
        if not self.html:
            return None
        from html import escape

        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts allow-downloads" title="odm" '
            f'style="width:100%;height:{HEIGHT}px;border:1px solid #8884;border-radius:6px"></iframe>'
        )


class Shown:
    """Base of values that display themselves in a notebook."""

    __slots__: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        text: str = import_late("verbs.notebook").html_of(self)
        return text


class DatasetViews(Shown):
    """Methods of `Dataset` that display it."""

    __slots__ = ()

    def show(
        self,
        out: Path | None = None,
        *,
        images: Path | None = None,
        columns: int = 4,
        limit: int = 60,
        size: int = 320,
        **options: Any,
    ) -> WebPage:
        """Draw the boxes on their images: a page that a notebook shows, or `out`, ``NAME.html`` or a folder.

        Parameters
        ----------
        images
            The folder of the pictures, where the dataset does not know them.
        columns
            How many pictures stand beside each other.
        limit, size
            How many images at most, and the longest side of each in pixels.
        options
            ``report_title``, ``language`` and ``overwrite`` of `odm.show`.
        """
        page_options = {"report_images": limit, "report_size": size, **options}
        page: WebPage = import_late("verbs.notebook").dataset_page(self, out, images, columns, **page_options)
        return page


class ResultViews(Shown):
    """Methods of `Evaluation` and `Result` that display them."""

    def report(self, out: Path | None = None, *, images: Path | None = None, **options: Any) -> WebPage:
        """The page of ``odm eval --report``: in a notebook, or written to `out`, ``NAME.html`` or a folder.

        Parameters
        ----------
        images
            The folder of the pictures, where the datasets do not know them.
        options
            ``report_images``, ``report_size``, ``report_title``, ``language``, ``overwrite`` of `odm.eval`.
        """
        page: WebPage = import_late("verbs.notebook").evaluation_report(self, out, images, **options)
        return page

    def plot(self, what: str = "precision-recall") -> Figure:
        """Return a plot of ``odm eval --plots`` as a figure of Matplotlib (extra ``[plot]``).

        Parameters
        ----------
        what
            The name of its file without the suffix; a wrong one is answered with all names.
        """
        figure: Figure = import_late("verbs.notebook").plot(self, what)
        return figure


class ComparisonViews(Shown):
    """Methods of `Comparison` that display it."""

    __slots__ = ()

    def report(self, out: Path | None = None, *, images: Path | None = None, **options: Any) -> WebPage:
        """The page of ``odm compare --report``, of up to four runs that `odm.compare` read."""
        page: WebPage = import_late("verbs.notebook").comparison_report(self, out, images, **options)
        return page
