"""What suites of single formats share: files laid out as given, read and written by one format, and as plain rows."""

from pathlib import Path

from corpus_base import lay as put

from odm.files import Output, Source
from odm.formats import FORMATS, make_options
from odm.issues import Log
from odm.tables import Builder

WRITTEN = {name: format_ for name, format_ in FORMATS.items() if format_.write}
"""The formats that are written, by name."""


def lay(folder, files):
    put(folder, files)
    return folder / "input" if len(files) > 1 or "/" in next(iter(files)) else folder / next(iter(files))


def read(path, name, kind=None, *, other=None, **options):
    builder, log = Builder(None if other is None else lambda: other), Log()
    builder.kind = kind
    FORMATS[name].read(Source(str(path)), builder, log, make_options(FORMATS[name], options))
    return builder.build(), log


def write(dataset, path, name, **options):
    format_, log = FORMATS[name], Log()
    with Output(str(path), single=Path(path).suffix in format_.suffixes, overwrite=True) as output:
        format_.write(dataset, output, log, make_options(format_, options))
        assert not (log.errors and output.written)
        assert log.errors or output.single or sorted(output.written) == sorted(output._planned)
    return log


def seen(data):
    boxes = data.boxes
    return [
        (data.images.name[boxes.image[i]], data.categories.name[boxes.category[i]], *boxes.xyxy[i].tolist())
        for i in range(len(boxes))
    ]
