"""What the suites of the neighbours share: files laid out as given, read by one format, and seen as plain rows."""

from odm.files import Source
from odm.formats import FORMATS, make_options
from odm.issues import Log
from odm.tables import Builder


def lay(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "input" if len(files) > 1 or "/" in next(iter(files)) else folder / next(iter(files))


def read(path, name, kind=None, **options):
    builder, log = Builder(), Log()
    builder.kind = kind
    FORMATS[name].read(Source(str(path)), builder, log, make_options(FORMATS[name], options))
    return builder.build(), log


def seen(data):
    boxes = data.boxes
    return [
        (data.images.name[boxes.image[i]], data.categories.name[boxes.category[i]], *boxes.xyxy[i].tolist())
        for i in range(len(boxes))
    ]
