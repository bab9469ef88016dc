"""Open files: refuse what is no regular file or too large, look into archives, and decode text to UTF-8.

Refused are devices, holes and what is too large. A path may lead through a ZIP archive, as in
``export.zip/images/a.jpg``: whatever opens files opens such a one, and of a gzip file what it holds. Nothing
is ever unpacked to disk.

Text in a local encoding (GBK, Shift JIS, Windows-1252 ...) is made UTF-8 where its bytes come in.
The rule by which an encoding is recognised, of a text that is not UTF-8 and has no control characters:

- Each encoding of `ENCODINGS` is tried on the first pieces that are not ASCII. It *fits* if these decode
  without an error, and to nothing but ASCII, common signs and the letters of one language written in it.
- In a code page of one byte per letter, which decodes nearly anything, a word has letters of one script,
  and capitals only at its beginning. A word of Latin letters has no four accented letters in a row, and
  an ASCII letter unless it has a single letter; the final forms of Greek and Hebrew letters end a word.
- In an encoding of several bytes, at least three different letters and three quarters of them are among
  the most frequent ones of the language. One of which a third to three quarters are is a *rival*.
- A text in Cyrillic or Greek has at least four different letters.
- It is recognised where all that fit give the same text, and there is no rival. Else nothing is done, so that
  the reader refuses the file.
"""

# ruff: noqa: RUF001
from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import io
import itertools
import os
import re
import stat
import sys
import zlib
from typing import IO, TYPE_CHECKING, Any

from odm import inputs
from odm.issues import Code, spell
from odm.names import refuse_name

if TYPE_CHECKING:
    import zipfile  # slow to import, so that each function that needs it does

MAX_SIZE = 64 * 2**30
"""Bytes; a larger file is refused. Real annotation files exceed 2 GB."""

HEAD = 64 * 2**10
"""How many first bytes a sniffer may look at."""
UNREADABLE = Code(
    "unreadable-file",
    "error",
    "cannot read the file: {reason}",
    "check that it exists, is a regular file, and that you have permission to read it",
    "A file in the dataset could not be opened or read to the end, so its content is unknown.",
    file=True,
)
NOT_TEXT = Code(
    "not-text",
    "error",
    "expected text, found {value}",
    "extract it if it is an archive, or give the file that contains the annotations",
    "The file starts like an archive, a picture or another binary file. Archives are not extracted, so its "
    "content is unknown.",
    file=True,
)

_FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    _FLAGS |= getattr(os, _flag, 0)


class Unreadable(Exception):
    """A file could not be read; the text is the reason."""


def _open(path: str, max_size: int) -> tuple[int, int]:
    """Open a regular file, record it as an input of the run, and return its descriptor and size in bytes.

    Raises Unreadable if it is another kind of file, has more than `max_size` bytes, or cannot be opened.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as e:
        if e.errno == errno.ENXIO:
            raise Unreadable("it is a socket or a device, not a regular file") from None
        raise Unreadable(describe_error(e)) from None
    except ValueError:
        raise Unreadable("its name contains a NUL") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"it is {name_file_kind(status.st_mode)}, not a regular file")
        refuse_larger(status.st_size, max_size)
    except BaseException:
        os.close(descriptor)
        raise
    inputs.opened(path, status)
    return descriptor, status.st_size


def refuse_larger(size: int, max_size: int) -> None:
    """Raise Unreadable if a file has more bytes than `max_size`."""
    if size > max_size:
        raise Unreadable(f"it has {size} bytes, more than the limit of {max_size} ({spell('max_size')})")


def read_bytes(path: str, *, max_size: int = MAX_SIZE) -> bytes:
    """Return the whole content of a regular file, or of one in an archive; a gzip file is unpacked.

    Raises `Unreadable` with the reason.
    """
    if archive_entry := _split_entry_path(path):
        stream, size = _open_entry(*archive_entry, max_size)
        with stream:
            return _read_entry(stream, size)
    descriptor, size = _open(path, max_size)
    try:
        if size > 2**20:  # a hole of gigabytes is refused before it is read
            refuse_nuls(os.read(descriptor, 4096))
            os.lseek(descriptor, 0, os.SEEK_SET)
        data = os.read(descriptor, min(size + 1, 2**30))  # one more, so that a file that grows is noticed
        if len(data) != size or size >= 2**30:  # one call returns at most 2 GiB
            stream = io.BytesIO()
            stream.write(data)
            del data  # lest the content be held twice
            while (n_left := size + 1 - stream.tell()) > 0 and (
                chunk := os.read(descriptor, min(n_left, 2**26))
            ):
                stream.write(chunk)
            data = stream.getvalue()
    except OSError as e:
        raise Unreadable(describe_error(e)) from None
    except (MemoryError, OverflowError):
        raise Unreadable(f"its {size} bytes do not fit into memory") from None
    finally:
        os.close(descriptor)
    if len(data) != size:
        raise Unreadable("it changed while being read")
    if size >= 4096:
        refuse_nuls(data[:4096])
    return _unpack_gzip(data, max_size) if _is_gzip(path, data) else data


def _split_entry_path(path: str) -> tuple[str, str] | None:
    """Split a path into an archive and the name of a file in it; None for archives and other paths."""
    location = split_archive_path(path) if ".zip" in os.fspath(path).lower() else None
    return location if location and location[1] else None


def _open_entry(path: str, name: str, max_size: int) -> tuple[IO[bytes], int]:
    """Open a file of an archive, which is recorded as an input of the run; returns it and its size in bytes.

    Raises Unreadable with the reason.
    """
    import zipfile

    try:
        inputs.opened(path, os.stat(path))
        archive, entries = _open_archive(path)
    except OSError as e:
        raise Unreadable(describe_error(e)) from None
    info = entries.get(name)
    if info is None:
        raise Unreadable("there is no such file in the archive")
    if info.flag_bits & 1:
        raise Unreadable("it is encrypted")
    refuse_larger(info.file_size, max_size)
    try:
        return io.BufferedReader(_ArchiveFile(archive.open(info))), info.file_size
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as e:
        raise Unreadable(str(e)) from None


def _read_entry(stream: IO[bytes], size: int) -> bytes:
    """Read a file of an archive to its end. Raises Unreadable unless it has `size` bytes."""
    try:
        data = stream.read(size + 1)
    except OSError as e:
        raise Unreadable(describe_error(e)) from None
    if len(data) != size:
        raise Unreadable("it is damaged in its archive: its size differs")
    return data


def refuse_nuls(head: bytes) -> None:
    """Raise Unreadable if a file begins with nothing but NULs."""
    if len(head) >= 4096 and not head[:4096].strip(b"\0"):
        raise Unreadable("it begins with 4096 NUL bytes, so its content is lost or is not text")


_NOT_TEXT = {
    b"\x1f\x8b": "a gzip file",
    b"PK\3\4": "a ZIP archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!\x1a": "a RAR archive",
    b"\xfd7zXZ\0": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"BZh91AY&SY": "a bzip2 file",
    b"\x89PNG\r\n": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF87a": "a GIF picture",
    b"GIF89a": "a GIF picture",
    b"II*\0": "a TIFF picture",
    b"MM\0*": "a TIFF picture",
    b"%PDF-": "a PDF document",
    b"\x89HDF\r\n": "an HDF5 file",
    b"\x93NUMPY": "a NumPy file",
    b"SQLite format 3\0": "an SQLite database",
}
"""The first bytes of files that are taken for annotations by mistake, and the kind of each."""
_BEGINNINGS = tuple(_NOT_TEXT)


def find_binary_kind(head: bytes) -> str:
    """Name the kind of a file that begins like an archive, a picture or the like; empty if it is none."""
    if not head.startswith(_BEGINNINGS):
        return ""
    return next(kind for signature, kind in _NOT_TEXT.items() if head.startswith(signature))


def read_head(path: str, n: int = HEAD) -> bytes:
    """Return the first `n` bytes of what `read_bytes` returns. Raises Unreadable with the reason."""
    if archive_entry := _split_entry_path(path):
        stream, size = _open_entry(*archive_entry, 2**63)  # of any size
        with stream:
            return _read_entry(stream, size) if size <= n else stream.read(n)
    descriptor, _ = _open(path, 2**63)
    try:
        head = b""
        while len(head) < n and (chunk := os.read(descriptor, n - len(head))):
            head += chunk
    except OSError as e:
        raise Unreadable(describe_error(e)) from None
    finally:
        os.close(descriptor)
    return _unpack_gzip(head, n, is_cut=True) if _is_gzip(path, head) else head


def open_binary(path: str, *, max_size: int = MAX_SIZE) -> IO[bytes]:
    """Open a regular file, or one in an archive, for a library that reads parts of it.

    The content of a gzip file is unpacked into memory. Raises `Unreadable` with the reason.
    """
    if archive_entry := _split_entry_path(path):
        stream, _ = _open_entry(*archive_entry, max_size)
        return stream
    descriptor, _ = _open(path, max_size)
    stream = os.fdopen(descriptor, "rb")
    if os.fspath(path).lower().endswith(".gz"):
        stream.close()
        return io.BytesIO(read_bytes(path, max_size=max_size))
    return stream


GIVE_A_PATH = "give a path (./- for a file of this name)"


def describe_error(e: Exception) -> str:
    """Return the reason why the system refused, in its words and without the path."""
    if isinstance(e, OSError) and e.errno is not None:
        return os.strerror(e.errno)
    return str(e)


def name_file_kind(mode: int) -> str:
    """Name the kind of a file that is not regular, by the mode of its status."""
    for is_of_kind, kind in (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a device"),
    ):
        if is_of_kind(mode):
            return kind
    return "something else"


MAX_ENTRIES = 2_000_000
MAX_RATIO = 1000
"""How much larger than in the archive a file may be, above a megabyte; DEFLATE reaches 1032."""
MAX_UNPACKED, UNPACKED_RATIO = 2**25, 100
"""Bytes that all files of an archive may have, or how many times its own, whichever is more."""
_GZIP = b"\x1f\x8b"


def split_archive_path(path: str) -> tuple[str, str] | None:
    """Split a path into an archive and the name in it, empty for the archive itself; None for other paths."""
    path = os.fspath(path)
    lower_path = path.lower()
    start = lower_path.find(".zip")
    while start >= 0:
        end = start + 4
        if lower_path[end : end + 1] in ("", "/", os.sep) and os.path.isfile(path[:end]):
            return path[:end], path[end:].replace(os.sep, "/").strip("/")
        start = lower_path.find(".zip", end)
    return None


def may_exist(path: str) -> bool:
    """Whether something is at a path, or may be in the archive through which it leads."""
    return os.path.exists(path) or split_archive_path(path) is not None


@functools.lru_cache(maxsize=4)
def _list_archive(
    path: str, mtime_ns: int, size: int, process: int
) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    """Open the archive at `path` and return it and its files by name.

    The other arguments tell results apart that the cache keeps: the file may change, and a forked process
    would share the position in the open file. By `size`, its bytes, those of its content are limited, too.
    Raises Unreadable if it is damaged, has too many entries or bytes, an unsafe or repeated name, or a link.
    """
    import zipfile

    del mtime_ns, process
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as e:
        raise Unreadable(f"it is not a readable ZIP archive ({e})") from None
    entries: dict[str, zipfile.ZipInfo] = {}
    infos = archive.infolist()
    if len(infos) > MAX_ENTRIES:
        raise Unreadable(f"it has {len(infos)} entries, more than the limit of {MAX_ENTRIES}")
    for info in infos:
        if info.is_dir():
            continue
        name = info.filename
        if (reason := refuse_name(name)) is not None:
            raise Unreadable(f"its entry {name!r} is not a safe name: {reason}")
        if stat.S_ISLNK(info.external_attr >> 16):  # its mode on Unix
            raise Unreadable(f"its entry {name!r} is a link")
        if name in entries:
            raise Unreadable(f"it has two entries {name!r}")
        if info.file_size > max(2**20, MAX_RATIO * info.compress_size):
            raise Unreadable(f"its entry {name!r} has {info.file_size} bytes in {info.compress_size}")
        entries[name] = info
    total = sum(info.file_size for info in entries.values())
    if total > max(MAX_UNPACKED, UNPACKED_RATIO * size):
        raise Unreadable(
            f"its files have {total} bytes, more than {UNPACKED_RATIO} times its own {size}: unpack it "
            "first, if you trust it"
        )
    return archive, entries


def list_entries(path: str) -> dict[str, zipfile.ZipInfo]:
    """Return the files in an archive, by name.

    Raises `Unreadable` if the archive or a file in it may not be read.
    """
    _, entries = _open_archive(path)
    return entries


def _open_archive(path: str) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
    """Return an open archive and its files by name, from the cache if the archive has not changed."""
    status = os.stat(path)
    return _list_archive(path, status.st_mtime_ns, status.st_size, os.getpid())


class Wrapped(io.RawIOBase):
    """A file opened by a library, with the interface of Python's own files."""

    def __init__(self, stream: Any) -> None:
        super().__init__()
        self._stream = stream

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position of the next read; to go backwards in an archive, it is read again."""
        position: int = self._stream.seek(offset, whence)
        return position

    def tell(self) -> int:
        """Return the position of the next read."""
        position: int = self._stream.tell()
        return position

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer, or as much of it as can be read at once; return the number of bytes."""
        view = memoryview(buffer).cast("B")
        data = self.read_chunk(len(view))
        view[: len(data)] = data
        return len(data)

    def read_chunk(self, n_max: int) -> bytes:
        """Read up to `n_max` bytes."""
        raise NotImplementedError


class _ArchiveFile(Wrapped):
    """A file of an archive; if it is damaged, reading raises OSError."""

    def read_chunk(self, n_max: int) -> bytes:
        """Read up to `n_max` bytes."""
        import zipfile

        try:
            data: bytes = self._stream.read(n_max)
        except (zipfile.BadZipFile, zlib.error, EOFError) as e:
            raise OSError(f"it is damaged in its archive: {e}") from None
        return data


def _is_gzip(path: str, head: bytes) -> bool:
    """Whether a file is compressed, by its name and how it begins."""
    return head.startswith(_GZIP) and os.fspath(path).lower().endswith(".gz")


def _unpack_gzip(data: bytes, max_size: int, *, is_cut: bool = False) -> bytes:
    """Return the content of a gzip file, of which `data` are all bytes, or the first if it `is_cut`.

    Raises Unreadable if it is damaged, or its content is longer than `max_size` or suspiciously long; of one
    that is cut, the first `max_size` bytes are returned.
    """
    unpack = zlib.decompressobj(wbits=31)  # of the format of gzip
    limit = min(max_size, max(MAX_UNPACKED, UNPACKED_RATIO * len(data)))
    try:
        content = unpack.decompress(data, max_size if is_cut else limit + 1)  # one more byte shows an excess
    except zlib.error as e:
        raise Unreadable(f"it is a damaged gzip file ({e})") from None
    if is_cut:
        return content
    if not unpack.eof and len(content) > limit:
        raise Unreadable(f"it holds more bytes than {spell('max_size')} or its own size allow")
    if not unpack.eof or unpack.unused_data:
        raise Unreadable("it is a gzip file that is truncated, or has several parts")
    return content


def strip_gz(path: str) -> str:
    """Return a path without the ``.gz`` at its end, so that its suffix is that of the format."""
    path = os.fspath(path)
    return path[:-3] if path.lower().endswith(".gz") else path


_LOOKED_AT = 2**18
_PIECES = 10**5
"""Bytes, and number, of the pieces that are not ASCII by which an encoding is recognised."""
_SURE, _RIVAL = 3 / 4, 1 / 3
_BLOCK = 2**14
_BLOCKS = 16
"""How many blocks that are not ASCII must be UTF-8 before a file is taken for it."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_DECLARED = re.compile(rb"""\s*<\?xml[^>]*\sencoding\s*=""")
_PIECE = re.compile(rb"[\x80-\xff][^\x00-\x22,]*")
"""What is not ASCII, to the next delimiter, which is within a character in no encoding."""
_BEFORE = re.compile(rb"[A-Za-z]*\Z")
_WORD = re.compile(r"[^\W\d_]+")
_SIGNS = frozenset("«»°·–—’‘“”…€\xa0、。，：；！？（）「」『』《》【】・ー％　")
_WIDE = range(0xFF01, 0xFF5F)

_HAN = (
    "的一是不了在人有我他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学对可里后小么心多天而能好都"
    "然没日于起还发成事只作当想看文无开手十用主行方又如前所本见经头面公同三已老从动两长知民样现分将外但身些与高意进把法此"
    "实回二理美点月明其种声全工己话儿者向情部正名定女问力机给等几很业最间新打便位因重被走电四第门相次东政海口使教西再平真"
    "听世气信北少关并内加化由却代军产入先山五太水万市眼体别处总才场师书比住员九性通目报立马命张活难神数件安表原车白应路期"
    "叫死常提感金何更反合放做系计或司利受光王果亲界及今京务制解各任至清物台象记边共风战干接它许八特觉望直服毛林题建南度统"
    "色字请交爱让认算论百吃义科怎元社术结六功指思非流每青管夫连远资队带花快条院变联言权往展该领传近留红决保达办运半候七必"
    "城父强步完革深区即求品士量空技轻江英基满式息写令黄收脸未持取设始版双越史商千片容像找友站广改议形委早房音火际则首单据"
    "导影失拿网香石专若兵校读飞观争究包组造落视济喜离坏兴狗猫鸟船汽卡托摩自转轮羊牛熊斑颈鹿背伞带箱盘滑雪板球筝棒套冲浪拍"
    "瓶杯叉刀勺碗蕉苹橙兰萝卜热披萨甜圈蛋糕椅沙床餐桌桶笔鼠标遥控器键微波炉烤槽冰钟剪泰迪吹牙刷灯号停消防栓计时凳奶面饮料"
    "行人骑车卡客货公共挖掘救护警察摩托船舶建筑桥塔道路标志线绿头盔安全帽衣缺陷划痕裂纹孔锈苗草虫病鱼鸡猪鸭树叶树木花果实"
    "個國來時說們為這裡後對會過學還發當無開樣現將與進實點種聲話問給幾業間電門東聽氣關並內產萬體別處總場師書員報馬張難數車應"
    "記邊風戰許覺題統請愛讓認論義術結連遠資隊帶條變聯權傳紅決達辦運強區輕滿寫黃臉設雙網專讀飛觀爭組視濟離壞興貓鳥輪鹿傘盤箏"
    "衝蘋蘿蔔熱機腳踏沙發餐桌視筆滑鼠遙鍵盤爐鐘燈號動腦斑頸長羊警標誌單獅豬雞鴨樹葉綠線護蔬鋼鐵廠燒飯麵條飲"
    "気駅円売買国際図広対応発見実験検査戦歩自転車動物園駐車場歩行者信号機消火栓標識傘箱皿飛行帽子冷蔵庫携帯電話時計花瓶歯傷"
)
"""The most frequent characters of Chinese and Japanese, and those of the names of common objects."""
_KANA = "".join(map(chr, (*range(0x3041, 0x3094), *range(0x30A1, 0x30F7), 0x30FC)))
_HANGUL = (
    "이다는에을의가고하지은로기를서아사도리나한자해어인시그스전정대수일부라들있제것보주장게과었안여조으만년구원상관유신동산성생"
    "까니면우선세실중진소용경비국방바내모거마개소영오공물야발무미계분회학적재연외차화문식트간교위통명호람집말속음단심현체설습결"
    "본요저네터입두치와않없많더될된같때등후달천포군토행종태러르드레크그양건감금강처노출력당입타류파표역반번목북남남동서점능불민배"
    "버벤새고양이곰얼룩기린코끼리낭산핸백넥타행가방반스키노보드글러브케이팅핑테니라켓병와인잔컵포칼숟락릇바나과샌위치오렌지브콜당"
    "근핫피자도넛침식탁텔비전북폰리모컨키휴화레오븐토싱냉책꽃가위형헤어칫솔트럭택신등판미터말소몰닭돼쥐헬멧균열흠함결사각복의모"
    "자얼굴손발눈코귀길집문창벽나무꽃잎풀번호판횡단보승합용물안전조끼건불연크레인"
)
_LATIN = {
    "cp1252": (
        *("àâæçèéêëîïôœùûüÿ", "äöüß", "áéíñóúü", "àáâãçéêíóôõúü", "àèéìíîòóùú", "æøåéóò", "äöåé", "éèëïöüá"),
        *("àçèéíïòóúü", "áðéíóúýþæö"),
    ),
    "cp1250": (
        *("ąćęłńóśźż", "áčďéěíňóřšťúůýž", "áäčďéíĺľňóôŕšťúýž", "áéíóöőúüű", "čćđšž", "ăâîşţ", "äöüß"),
    ),
    "cp1254": ("çğıöşüâîûİ",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž", "äõöüšž"),
}
_LATIN["mac_roman"] = _LATIN["cp1252"]
_NEVER = frozenset({"mac_roman", "cp1255"})
"""Encodings that are too rare to be recognised; they can only make another one unclear."""
_OTHER = {
    "cp1251": (
        "абвгдежзийклмнопрстуфхцчшщъыьэюяё",
        "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
        "абвгдежзійклмнопрстуўфхцчшыьэюяё",
    ),
    "cp1253": ("αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώϊϋ",),
    "cp1255": ("אבגדהוזחטיךכלםמןנסעףפץצקרשת",),
}
_FINAL = frozenset("ςךםןףץ")
_WIDE_ENCODINGS = {
    "gb18030": (_HAN, range(0x4E00, 0xA000)),
    "big5": (_HAN, range(0x4E00, 0xA000)),
    "shift_jis": (_HAN + _KANA, range(0x3041, 0xA000)),
    "euc_jp": (_HAN + _KANA, range(0x3041, 0xA000)),
    "cp949": (_HANGUL, range(0xAC00, 0xD7A4)),
}
_CODECS = {"big5": "cp950", "shift_jis": "cp932"}
_FREQUENT = {name: frozenset(letters) for name, (letters, _) in _WIDE_ENCODINGS.items()}
ENCODINGS = (*_WIDE_ENCODINGS, *_LATIN, *_OTHER)
"""The encodings that are recognised."""


def is_encoding(name: str) -> bool:
    """Whether `name` is the name of an encoding of text."""
    try:
        return isinstance("".encode(name), bytes)
    except (LookupError, UnicodeError, ValueError):
        return False


def is_utf8(data: bytes, *, is_cut: bool = False) -> bool:
    """Whether the first blocks of a text that are not ASCII are UTF-8, or marked as UTF-16 or UTF-32.

    If `is_cut`, the last character may be incomplete.
    """
    if data.isascii():
        return True
    if data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True  # readers know these by their marks, and decode or refuse them
    decoder, blocks_left = codecs.getincrementaldecoder("utf-8")(), _BLOCKS
    try:
        for start in range(0, len(data), _BLOCK):
            block = data[start : start + _BLOCK]
            if not block.isascii() or decoder.getstate()[0]:  # bytes of a character that goes on here
                decoder.decode(block)
                blocks_left -= 1
                if not blocks_left:
                    return True
        decoder.decode(b"", not is_cut)
    except UnicodeDecodeError:
        return False
    return True


def as_utf8(data: bytes, encoding: str, *, is_cut: bool = False) -> bytes:
    """Decode text from the encoding that the user named and return it as UTF-8.

    Text that declares its own encoding is returned unchanged.

    Raises UnicodeDecodeError for text in another encoding. If `is_cut`, the last character may be incomplete.
    """
    # In UTF-16, UTF-32 and ISO-2022-JP, bytes of ASCII may stand for other characters.
    if data.isascii() and not any(digits in encoding for digits in ("16", "32", "2022")):
        return data
    if data.startswith(codecs.BOM_UTF8) or _DECLARED.match(data):
        return data
    # `_CODECS` has the extensions by which Windows reads some encodings, such as cp950 for Big5.
    text = codecs.getincrementaldecoder(_CODECS.get(encoding, encoding))().decode(data, not is_cut)
    return text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")


def recognise_encoding(data: bytes, *, is_cut: bool = False) -> tuple[str, dict[str, str]]:
    """Return the encoding of a text that is not UTF-8, empty if unclear, and sample words by candidate.

    The module describes the rule; XML and text with control characters are unclear. If `is_cut`, the last
    character may be incomplete.
    """
    if _CONTROL.search(data) or data.lstrip()[:1] == b"<":  # XML that does not name its encoding is UTF-8
        return "", {}
    sample = _sample_pieces(data)
    fitting, rivals = dict[str, str](), dict[str, str]()
    for name in ENCODINGS:
        try:
            text = codecs.getincrementaldecoder(_CODECS.get(name, name))().decode(sample, not is_cut)
        except UnicodeDecodeError:
            continue
        share = _score_wide(text, name) if name in _WIDE_ENCODINGS else _score_page(text, name)
        if share >= _SURE and name not in _NEVER:
            fitting[name] = text
        elif share > _RIVAL and text not in fitting.values():  # one that gives the same text is no rival
            rivals[name] = text
    is_sure = len(set(fitting.values())) == 1 and not rivals
    examples = {}  # a few words that are not ASCII, for a message
    for name, text in (fitting | rivals).items():
        words = (word for word in _WORD.findall(text) if not word.isascii())
        examples[name] = ", ".join(list(dict.fromkeys(words))[:2])[:30]
    return (next(iter(fitting)) if is_sure else ""), examples


def _sample_pieces(data: bytes) -> bytes:
    """Return the first distinct words of a text that are not ASCII, one on each line.

    Each is a match of `_PIECE` with the ASCII letters before it.
    """
    pieces, size, end = dict[bytes, None](), 0, 0
    for match in itertools.islice(_PIECE.finditer(data), _PIECES):
        start = match.start()
        # At most 40, and none that the piece before has.
        ascii_letters = _BEFORE.search(data[max(end, start - 40) : start])
        piece = (ascii_letters[0] if ascii_letters else b"") + match[0]
        end = match.end()
        if piece not in pieces:
            pieces[piece] = None
            size += len(piece)
            if size > _LOOKED_AT:
                break
    return b"\n".join(pieces)


def _score_wide(text: str, name: str) -> float:
    """Return the share of a text's distinct letters that are frequent in the language of an encoding.

    0 if one is of another script; less than `_SURE` if there are fewer than three.
    """
    letters = {c for c in set(text) - _SIGNS if c > "\x7f" and ord(c) not in _WIDE}
    _, code_points = _WIDE_ENCODINGS[name]  # of the scripts of the encoding
    if len(letters) == 0 or any(ord(c) not in code_points for c in letters):
        return 0.0
    share = len(letters & _FREQUENT[name]) / len(letters)
    return share if len(letters) >= 3 else min(share, _SURE - 0.01)


def _score_page(text: str, name: str) -> float:
    """Return 1 if a text decoded by a code page of one byte per letter has words of one language, else 0."""
    letters = {c for c in set(text) - _SIGNS if c > "\x7f"}
    alphabets = _LATIN.get(name) or _OTHER[name]
    if not any(letters <= frozenset(a + a.upper()) for a in alphabets):
        return 0.0
    if name in _OTHER and len({c.lower() for c in letters}) < 4:  # few letters fit many alphabets
        return 0.0
    words = {word for word in _WORD.findall(text) if not word.isascii()}
    if not any(len(word) > 1 for word in words):
        return 0.0
    return float(all(_is_word(word, latin=name in _LATIN) for word in words))


def _is_word(word: str, *, latin: bool) -> bool:
    """Whether a word has letters of one script, and capitals only at its beginning, or throughout if `latin`.

    Of Latin letters no four in a row are accented, and one is of ASCII, unless it has a single letter.
    """
    after_first = word[1:]
    if not latin:
        return (
            not re.search("[A-Za-z]", word)
            and after_first == after_first.lower()
            and _FINAL.isdisjoint(after_first[:-1])  # final forms end a word
        )
    return (
        (len(word) == 1 or re.search("[A-Za-z]", word) is not None)
        and re.search("[^A-Za-z]{4}", word) is None
        and (after_first == after_first.lower() or word == word.upper())
    )


def names_entry_point(group: str) -> bool:
    """Whether any installed distribution declares entry points of a group.

    `importlib.metadata` would answer the same, but add a quarter to the time that the program takes to start.
    """
    header = f"[{group}]".encode()
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                folders = [e.path for e in entries if e.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for path in folders:
            with contextlib.suppress(Unreadable), inputs.pause_gathering():
                if header in read_bytes(os.path.join(path, "entry_points.txt")):
                    return True
    return False
