"""What is done to a dataset: functions of its folder and its main file, which the tables of the corpus name."""

import contextlib
import io
import os
import socket
import zipfile

from corpus_base import MAIN, PNG, lay


def fifo(_, main):
    main.unlink()
    os.mkfifo(main)


def a_socket(_, main):
    main.unlink()
    here = os.getcwd()
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        os.chdir(main.parent)  # the name of a socket may have 107 bytes only
        try:
            s.bind(main.name)
        finally:
            os.chdir(here)


def a_folder(_, main):
    main.unlink()
    main.mkdir()


def link_loop(_, main):
    main.unlink()
    main.symlink_to(main.name)


def link_to_nowhere(_, main):
    main.unlink()
    main.symlink_to("nowhere")


def link_outside(folder, main):
    outside = folder.parent / "outside"
    outside.mkdir()
    main.rename(outside / main.name)
    main.symlink_to(outside / main.name)


def link_inside(folder, main):
    (folder / ".kept").mkdir()
    main.rename(folder / ".kept" / main.name)
    main.symlink_to(folder / ".kept" / main.name)


def folder_loop(folder, _):
    (folder / "again").symlink_to(folder)


def hidden_litter(folder, main):
    (folder / f"._{main.name}").write_bytes(b"\0\5\26\7")
    (folder / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    lay(folder / "__MACOSX", {f"._{main.name}": b"\0\5\26\7"})


def nuls(_, main):
    main.write_bytes(b"\0" * 10_000)


def sparse(_, main):
    with main.open("wb") as stream:
        stream.truncate(2**36)


def huge_sparse(_, main):
    with main.open("wb") as stream:
        stream.truncate(2**37 + 2**36)


def recoded(encoding, bom=b""):
    def change(_, main):
        main.write_bytes(bom + main.read_text().encode(encoding))

    return change


def with_bytes(function):
    def change(_, main):
        main.write_bytes(function(main.read_bytes()))

    return change


def every_file(function):
    def change(folder, _):
        for path in folder.iterdir():
            path.write_bytes(function(path.read_text()))

    return change


def zipped(text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a", text)
    return stream.getvalue()


def linked_pictures(*, folder=False, dangling=False):
    """Pictures in ``images``, by links that lead out of the dataset."""

    def change(labels, main):
        if main.name == MAIN["yolo"] and (labels / "classes.txt").exists():
            (labels / "labels").mkdir()
            for name in ("a.txt", "b.txt"):
                (labels / name).rename(labels / "labels" / name)
        home = labels.parent
        outside = lay(home / "photos", {"a.png": PNG, "b.png": PNG})
        if folder:
            (labels / "images").symlink_to(outside)
            return
        (labels / "images").mkdir()
        for name in ("a.png", "b.png"):
            (labels / "images" / name).symlink_to(home / "gone" / name if dangling else outside / name)

    return change


def beside(change):
    """A second file of the same kind, to which something happens."""

    def changed(folder, main):
        other = folder / "instances_more.json"
        other.write_bytes(main.read_bytes())
        change(folder, other)

    return changed


def bytes_name(folder, _):
    with open(os.fsencode(folder) + b"/\xff\xfe.txt", "wb") as stream:
        stream.write(b"cat 1 2 3 4\n")


SECRET = "the secret of the file outside"


def external(doctype, use=""):
    """A document type that names a file outside, which holds a secret."""

    def change(folder, main):
        outside = lay(folder.parent / "outside", {"secret": SECRET, "a.dtd": "<!ELEMENT"})
        first = doctype.replace("URL", outside.as_uri())
        main.write_text(f"<!DOCTYPE annotation {first}>\n" + main.read_text().replace(">cat<", f">cat{use}<"))

    return change


def renumbered(big):
    """The first image of COCO has this id."""
    old, new = b'"id": 1,\n   "file_name"', f'"id": {big},\n   "file_name"'.encode()
    return with_bytes(lambda d: d.replace(old, new).replace(b'"image_id": 1', f'"image_id": {big}'.encode()))


HALF = with_bytes(lambda d: d[: len(d) // 2])
NOTHING = with_bytes(lambda _: b"")
