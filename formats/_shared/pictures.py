"""Find the image file that belongs to the name of an image, and the size of images.

A size comes from, in this order: ``--image-sizes FILE.csv``, ``--image-size WxH``, the header of the picture
(``--images DIR``, or the folder that the format itself names), the other side of an evaluation.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import posixpath
from collections import Counter
from collections.abc import Collection
from typing import Any

import msgspec

from odm.codes import NO_SIZE, SIZE_OUT_OF_REACH
from odm.csv_text import QuoteFault, normalise_line_ends, read_records
from odm.files import MAX_SIZE, Source, may_exist
from odm.formats._contract import Options, option, parse_size
from odm.issues import Code, Log, PathError, Trusted, shorten
from odm.names import PICTURE_SUFFIXES, NameRule, parse_name_rule, stem, with_slashes
from odm.pictures import read_picture_size
from odm.tables import Builder

LINKED_PICTURE = Code(
    "picture-behind-link",
    "error",
    "the size of image {value!r} is unknown: its picture is behind a link that leads outside the source",
    "use --follow-links, or set the image folder with --images DIR",
    "A link that leads outside the source is followed only on request, because a dataset from the internet "
    "could use one to read other files of this machine.",
    file=True,
)
BAD_SIZE_ROW = Code(
    "bad-size-row",
    "error",
    "expected image,width,height, found {value!r}",
    "write one image per line, with whole numbers of pixels from 1",
    "A line of the --image-sizes file does not give an image with its width and height.",
)
TWO_PICTURES = Code(
    "ambiguous-picture",
    "error",
    "{first!r} and {second!r} could both be the picture of {value!r}",
    "remove or rename one of them",
    "Two pictures differ only in their extension, so it is unclear which one the annotations belong to.",
    file=True,
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ImageOptions(Options):
    """Options for the names and sizes of images: the base of the options of formats that may need them."""

    images: str | None = option(
        None, "folder of images, for their names and sizes", flag="--images", side="read", path=True
    )
    image_size: tuple[int, int] | None = option(
        None, "size of all images, as WxH in pixels", flag="--image-size", side="read", parse=parse_size
    )
    image_sizes: str | None = option(
        None,
        "CSV file of image,width,height, one image per line",
        flag="--image-sizes",
        side="read",
        path=True,
    )
    names: NameRule | None = option(  # noqa: RUF009 -- as all options
        None,
        "shorten image names: basename, or strip=PREFIX",
        flag="--names",
        side="read",
        parse=parse_name_rule,
    )


class Picture(msgspec.Struct, frozen=True, eq=False):
    """An image file of the dataset: its ``/``-separated name below the folder of images, and its path."""

    name: str
    path: str
    """Empty where the picture is behind a link that leads outside the source, and so is not opened."""
    behind: str = ""
    """Then that link."""

    @property
    def location(self) -> str:
        """The path or address of the image file, also if it is not opened."""
        return self.path or self.behind


def make_picture(source: Source, file: str, name: str) -> Picture:
    """Return the image file `file` of a source as `name`; without a path if it is behind a refused link."""
    path = source.full(file)
    return Picture(name, "", path) if file in source.picture_links else Picture(name, path)


class Pictures:
    """The image files and sizes that one reader can use, looked up by the names of images.

    Parameters
    ----------
    folders
        Folders of pictures that the format itself names; ``--images`` comes before them. Those that do not
        exist are passed over.
    beside
        `Pictures` of the same reader, whose listing of ``--images`` and sizes of images are taken over.
    """

    def __init__(
        self,
        options: ImageOptions,
        builder: Builder,
        log: Log,
        source: Source,
        folders: tuple[str, ...] = (),
        *,
        beside: Pictures | None = None,
    ) -> None:
        self._builder, self._log = builder, log
        self._size_of_all, self._shorten_name = options.image_size, options.names or with_slashes
        self._by_stem: dict[str, list[Picture]] = {}
        self._by_name: dict[str, Picture] = {}
        self._explicit: dict[str, tuple[int, int]] = {}
        """Sizes from ``--image-sizes``, or from lists of the source, by name with and without extension."""
        self._size_of_other_name: dict[str, tuple[int, int]] | None = None
        self._size_of_last_part: dict[str, tuple[int, int]] = {}
        """Sizes from the other side (`_list_other_sizes`), the first None until `find_size` needs them."""
        self._has_refused_link = False
        """Whether a folder of pictures, or a link in ``--images``, leads outside and so is not used."""
        self._ambiguous: set[str] = set()
        """Names whose two pictures have been reported."""
        # The listing of ``--images``, which is that of `beside` if there is one.
        self._option_source: Source | None = beside._option_source if beside is not None else None  # noqa: SLF001 -- one of this class
        if self._option_source is None and options.images is not None:
            self._option_source = Source(
                options.images, follow_links=source.follow_links, max_size=source.max_size
            )
        if self._option_source is not None:
            self._list(self._option_source)
            self._has_refused_link = any(outside for _, _, outside in self._option_source.bad_links)
        # The folders below add no file of --images again, nor one whose name without extension it has.
        paths_of_option = (os.path.abspath(picture.location) for picture in self._by_name.values())
        names_of_option = {*self._by_stem, *paths_of_option}
        self._option_names = set(self._by_name)
        for folder in folders:
            self._list_folder(folder, source, names_of_option)

        if beside is not None:
            self._explicit = beside._explicit  # noqa: SLF001 -- one of this class
        elif options.image_sizes is not None:  # in place of the lists of the source
            self._read_sizes(options.image_sizes)
        else:
            for file in source.sizes:
                self._read_sizes(source.full(file), file.rpartition("/")[0])

    def __bool__(self) -> bool:
        """Whether any picture was found."""
        return bool(self._by_name)

    @property
    def all(self) -> list[Picture]:
        """Every picture, in code-point order of the names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    @property
    def own(self) -> list[Picture]:
        """The image files in the folders that the format itself names, sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name.keys() - self._option_names)]

    def _list_folder(self, folder: str, source: Source, names_of_option: Collection[str]) -> None:
        """Add the image files of a folder that the format names, if it exists and is not behind a link."""
        if source.is_linked(folder):
            self._has_refused_link = True
        elif folder == source.path and type(source) is Source:  # which has listed all of it already
            self._list(source, source.left_out, names_of_option)
        elif may_exist(folder):
            try:
                listed = source.part(folder)
            except PathError:
                return
            self._list(listed, source.left_out, names_of_option)

    def _list(
        self, source: Source, left_out: Collection[str] = (), names_of_option: Collection[str] = ()
    ) -> None:
        """Add the image files of a folder, except those `left_out` and those among `names_of_option`.

        `names_of_option` are the names without extension, and the absolute paths, of the files of --images.
        """
        for file in source.with_suffix(*PICTURE_SUFFIXES):
            picture = make_picture(source, file, with_slashes(source.relative(file)))
            if picture.location in left_out:
                continue
            if names_of_option and (
                stem(picture.name) in names_of_option or os.path.abspath(picture.location) in names_of_option
            ):
                continue
            self._by_name[picture.name] = picture
            self._by_stem.setdefault(stem(picture.name), []).append(picture)

    def _read_sizes(self, path: str, below: str = "") -> None:
        """Read a CSV file of image sizes, by names relative to the folder `below`; report faulty rows."""
        source = Source(path, follow_links=True, max_size=MAX_SIZE)
        data = source.read("", self._log)
        if data is None:
            return
        try:
            text = normalise_line_ends(data.decode())
        except UnicodeDecodeError as e:
            self._log.report(BAD_SIZE_ROW, path, value=f"bytes that are not UTF-8 at {e.start}")
            return
        for line_number, _, row in read_records(text):
            if isinstance(row, QuoteFault):
                self._log.report(BAD_SIZE_ROW, path, line=line_number + row.lines, value=Trusted(str(row)))
                continue
            cells = [cell.strip() for cell in row]
            if not any(cells) or (line_number == 1 and len(cells) >= 3 and not cells[1].isdigit()):
                continue  # blank, or the header
            try:
                name = posixpath.join(below, cells[0])
                width, height = parse_pixels(cells[1]), parse_pixels(cells[2])
            except (IndexError, ValueError):
                self._log.report(BAD_SIZE_ROW, path, line=line_number, value=",".join(row))
                continue
            self._explicit[name] = self._explicit[stem(name)] = width, height

    def find(self, key: str, *, line: int = 0, path: str = "") -> Picture | None:
        """The picture of the image whose name without extension is `key`.

        If two differ only in their extension, one issue is reported at `path`, and the first is returned.
        """
        key = self._shorten_name(key)
        matches = self._by_stem.get(key, ())
        if len(matches) > 1 and key not in self._ambiguous:
            self._ambiguous.add(key)
            name, other_name = matches[0].name, matches[1].name
            self._log.report(
                TWO_PICTURES, path or matches[0].path, line=line, first=name, second=other_name, value=key
            )
        return matches[0] if matches else None

    def find_exact(self, name: str, *folders: str) -> Picture | None:
        """The image file with exactly this name: below these folders, then below the folder of all image
        files, then with the name's last part only; else None.
        """
        name = self._shorten_name(name)
        for path in (*(posixpath.join(folder, name) for folder in folders), name, name.rsplit("/", 1)[-1]):
            if picture := self._by_name.get(path):
                return picture
        return None

    def find_size(self, name: str, picture: Picture | None = None) -> tuple[int, int] | None:
        """Width and height of an image in pixels, by the first source that knows; None if none does.

        A picture whose header cannot be read is an issue. Images of the other side are found by their name,
        without its extension, or by the last part of it if that is unique there.
        """
        name = self._shorten_name(name)
        key = stem(name)
        explicit = self._explicit.get(name) or self._explicit.get(key) or self._size_of_all
        if explicit:
            return explicit
        if picture is not None and picture.path:
            return read_picture_size(picture.path, self._log)
        if self._size_of_other_name is None:
            self._size_of_other_name, self._size_of_last_part = self._list_other_sizes()
        return (
            self._size_of_other_name.get(name)
            or self._size_of_other_name.get(key)
            or self._size_of_last_part.get(key.rpartition("/")[2])
        )

    def _list_other_sizes(self) -> tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]:
        """Return sizes from the other side of an evaluation: by image name, and by the last part of it.

        Names count with and without extension; last parts, without it, only if one image there has them.
        """
        counterpart = self._builder.counterpart()
        if counterpart is None:
            return {}, {}
        names, size_of_name = counterpart.images.name, dict[str, tuple[int, int]]()
        sizes = zip(counterpart.images.width.tolist(), counterpart.images.height.tolist(), strict=True)
        for name, size in zip(names, sizes, strict=True):
            if min(size) > 0:
                size_of_name[name] = size
                size_of_name.setdefault(stem(name), size)
        last_parts = [stem(name).rpartition("/")[2] for name in names]
        n_with_last_part = Counter(last_parts)
        size_of_last_part = {
            last_part: size_of_name[name]
            for name, last_part in zip(names, last_parts, strict=True)
            if name in size_of_name and n_with_last_part[last_part] == 1
        }
        return size_of_name, size_of_last_part

    def lacks_any_hint(self, name: str, picture: Picture | None) -> bool:
        """Whether nothing hints at the size of an image, so that it need not have one.

        A hint is an image file, a refused link, or another side of an evaluation that knows other sizes.
        """
        return not self._has_refused_link and picture is None and self._explain_no_size(name) is None

    def report_no_size(self, name: str, picture: Picture | None, path: str, **location: Any) -> None:
        """Report that the size of an image is needed and not known, and why if the reason is known."""
        # A picture without a path is behind a link itself. If any link was refused, it may be behind that.
        may_be_behind_link = self._has_refused_link or (picture is not None and not picture.path)
        if may_be_behind_link:
            self._log.report(LINKED_PICTURE, path, value=name, **location)
        elif (reasons := self._explain_no_size(name)) is not None:
            reason, remedy = map(Trusted, reasons)
            self._log.report(SIZE_OUT_OF_REACH, path, value=name, reason=reason, way=remedy, **location)
        else:
            self._log.report(NO_SIZE, path, value=name, **location)

    def _explain_no_size(self, name: str) -> tuple[str, str] | None:
        """Return why the other side of an evaluation lacks the size, and what to do; None if unknown."""
        counterpart = self._builder.counterpart()
        if counterpart is None or not self._size_of_other_name:  # which `find_size` has looked for
            return None
        file_name = stem(name).rpartition("/")[2]
        namesakes = [
            other for other in counterpart.images.name if stem(other).rpartition("/")[2] == file_name
        ]
        if len(namesakes) > 1:
            shown = " and ".join(repr(shorten(other)) for other in namesakes[:2])
            reason = f"the other side has {len(namesakes)} images with this name, {shown}"
            remedy = "select one split with --split, or use the same names, including folders, on both sides"
            return reason, remedy
        if namesakes:  # which has no size either
            return None
        reason = "the other side has sizes, but no image with this name"
        return reason, "remove it here, add it there, or use --images DIR or --image-size WxH"


def parse_pixels(text: str) -> int:
    """A whole number of pixels in 1..2^31-1; ``640.0`` is one. Raises ValueError if it is anything else."""
    if not text.isascii() or "_" in text:
        raise ValueError("not a number of pixels")
    value = float(text)
    if not (1 <= value < 2**31 and value.is_integer()):
        raise ValueError("not a whole number of pixels in 1..2147483647")
    return int(value)


@functools.lru_cache(maxsize=1000)
def parse_pixels_or_unknown(text: str) -> int:
    """Parse a whole number of pixels, or 0 for an empty text or a zero, which stand for an unknown size."""
    zero = not text or (text.isascii() and "_" not in text and float(text) == 0)
    return 0 if zero else parse_pixels(text)
