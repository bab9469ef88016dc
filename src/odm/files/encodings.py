"""Text in a local encoding (GBK, Shift JIS, Windows-1252 ...), made UTF-8 where its bytes come in.

The rule by which an encoding is recognised, of a text that is not UTF-8 and has no control characters:

- Each encoding of `NAMES` is tried on the first pieces that are not ASCII. It *fits* if these decode
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
import itertools
import re

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
"""Only rivals: too rare to be taken for granted."""
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
NAMES = (*_WIDE_ENCODINGS, *_LATIN, *_OTHER)
"""The encodings that are recognised."""


def is_encoding(name: str) -> bool:
    """Whether this names an encoding of text."""
    try:
        return isinstance("".encode(name), bytes)
    except (LookupError, UnicodeError, ValueError):
        return False


def is_utf8(data: bytes, *, cut: bool = False) -> bool:
    """Whether the first blocks of a text that are not ASCII are UTF-8, or marked as UTF-16 or UTF-32.

    Of one that is `cut` the last character may be incomplete.
    """
    if data.isascii():
        return True
    if data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return True
    decoder, left = codecs.getincrementaldecoder("utf-8")(), _BLOCKS
    try:
        for at in range(0, len(data), _BLOCK):
            block = data[at : at + _BLOCK]
            if not block.isascii() or decoder.getstate()[0]:
                decoder.decode(block)
                left -= 1
                if not left:
                    return True
        decoder.decode(b"", not cut)
    except UnicodeDecodeError:
        return False
    return True


def as_utf8(data: bytes, encoding: str, *, cut: bool = False) -> bytes:
    """A text of an encoding that the user named, as UTF-8; one that names its own stays as it is.

    UnicodeDecodeError if it is not of this encoding; of one that is `cut` the end may be missing.
    """
    if data.isascii() and "16" not in encoding and "32" not in encoding and "2022" not in encoding:
        return data
    if data.startswith(codecs.BOM_UTF8) or _DECLARED.match(data):
        return data
    text = codecs.getincrementaldecoder(_CODECS.get(encoding, encoding))().decode(data, not cut)
    return text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")


def recognise(data: bytes, *, cut: bool = False) -> tuple[str, dict[str, str]]:
    """The encoding of a text that is not UTF-8, empty if unclear; of each that may be meant a few words."""
    if _CONTROL.search(data) or data.lstrip()[:1] == b"<":  # XML that does not name its encoding is UTF-8
        return "", {}
    sample = _sample(data)
    fitting, rivals = dict[str, str](), dict[str, str]()
    for name in NAMES:
        try:
            text = codecs.getincrementaldecoder(_CODECS.get(name, name))().decode(sample, not cut)
        except UnicodeDecodeError:
            continue
        share = _fit_of_wide(text, name) if name in _WIDE_ENCODINGS else _fit_of_page(text, name)
        if share >= _SURE and name not in _NEVER:
            fitting[name] = text
        elif share > _RIVAL and text not in fitting.values():
            rivals[name] = text
    sure = len(set(fitting.values())) == 1 and not rivals
    shown = {name: _few(text) for name, text in (fitting | rivals).items()}
    return (next(iter(fitting)) if sure else ""), shown


def _sample(data: bytes) -> bytes:
    """The first different pieces of a text that are not ASCII, a line each."""
    pieces, size, end = dict[bytes, None](), 0, 0
    for found in itertools.islice(_PIECE.finditer(data), _PIECES):
        begin = found.start()
        before = _BEFORE.search(data[max(end, begin - 40) : begin])
        piece = (before[0] if before else b"") + found[0]
        end = found.end()
        if piece not in pieces:
            pieces[piece] = None
            size += len(piece)
            if size > _LOOKED_AT:
                break
    return b"\n".join(pieces)


def _fit_of_wide(text: str, name: str) -> float:
    """Of the different letters the share that is frequent; 0 if one is of another script."""
    letters = {c for c in set(text) - _SIGNS if c > "\x7f" and ord(c) not in _WIDE}
    if len(letters) == 0 or any(ord(c) not in _WIDE_ENCODINGS[name][1] for c in letters):
        return 0.0
    share = len(letters & _FREQUENT[name]) / len(letters)
    return share if len(letters) >= 3 else min(share, _SURE - 0.01)


def _fit_of_page(text: str, name: str) -> float:
    letters = {c for c in set(text) - _SIGNS if c > "\x7f"}
    alphabets = _LATIN.get(name) or _OTHER[name]
    if not any(letters <= frozenset(a + a.upper()) for a in alphabets):
        return 0.0
    if name in _OTHER and len({c.lower() for c in letters}) < 4:
        return 0.0
    words = {word for word in _WORD.findall(text) if not word.isascii()}
    if not any(len(word) > 1 for word in words):
        return 0.0
    return float(all(_is_word(word, latin=name in _LATIN) for word in words))


def _is_word(word: str, *, latin: bool) -> bool:
    """Whether a word has letters of one script, and capitals as words have them."""
    rest = word[1:]
    if not latin:
        return not re.search("[A-Za-z]", word) and rest == rest.lower() and _FINAL.isdisjoint(rest[:-1])
    return (
        (len(word) == 1 or re.search("[A-Za-z]", word) is not None)
        and re.search("[^A-Za-z]{4}", word) is None
        and (rest == rest.lower() or word == word.upper())
    )


def _few(text: str) -> str:
    """A few words that are not ASCII, for a message."""
    words = (word for word in _WORD.findall(text) if not word.isascii())
    return ", ".join(list(dict.fromkeys(words))[:2])[:30]
