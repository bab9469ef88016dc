"""Diagnostics: codes, issues, the log that counts them, the exceptions, and the wording of messages.

The wording (`printable`, `shorten`, `plural`, `first_few`, `hint`, `spell` ...) serves every message of odm.
Bad data is data: a reader reports it here and goes on, so that all faults of a run show at once. Exceptions
are for the caller's mistakes and the operating system; they carry the exit code of the command line.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Severity = Literal["error", "warning"]
T = TypeVar("T")

KEPT_PER_CODE = 100
"""How many issues of one code a log keeps; all are counted."""

MOST_SHOWN = 400
"""How many characters of a JSON pointer are printed; a key may have millions."""

CODES: dict[str, Code] = {}
"""Every code that was declared so far, by name."""


class Code(msgspec.Struct, frozen=True):
    """A kind of fault, declared once, next to its use.

    ``template`` is filled with the values given to `Log.report` and says what was found; ``advice`` says the
    way out and ends the printed line. ``why`` tells in a sentence or two what it means and why it matters.
    ``row`` is true where the fault concerns one box, so that ``--skip-bad`` can leave it out; ``file`` where
    it concerns one file of annotations, which ``--skip-bad-files`` can. Every other fault is one of the whole
    dataset and is never left out. A code stands for one of the three, wherever it is reported.
    ``doubt`` is true for a guess about the meaning of a file, which ``--quiet`` does not hide.
    """

    name: str
    severity: Severity
    template: str
    advice: str
    why: str
    row: bool = False
    file: bool = False
    doubt: bool = False

    def __post_init__(self) -> None:
        if self.row and self.file:
            raise ValueError(f"code {self.name} concerns a row or a file, not both")
        if self.name in CODES:
            raise ValueError(f"code {self.name} is declared twice")
        CODES[self.name] = self


PERCENT = Code(
    "scores-in-percent",
    "warning",
    "expected scores in 0..1, found {n} of {total} above 1, up to {value}: they look like percentages",
    "divide them by 100; until then, --score-min and --at-score apply to the scores as they are",
    "AP depends only on the order of the scores, but thresholds, curves and other formats expect "
    "confidences between 0 and 1.",
)
INVERTED = Code(
    "inverted-box",
    "error",
    "expected left <= right and top <= bottom, found {value}",
    "check whether the four numbers are corners or left, top, width, height{option}; or swap the edges "
    "(validate --fix order), or leave the box out (--skip-bad of convert, eval and stats)",
    "The right edge is left of the left edge, or the bottom above the top. Such a box has no area, and "
    "metrics would count it as a miss. Usually widths were read as corners.",
    row=True,
)
"""`PERCENT` and `INVERTED` are here, as checks and evaluation report both, and neither imports the other."""


class Issue(msgspec.Struct, frozen=True):
    """One fault and its place. ``line`` and ``column`` count from 1, 0 = none."""

    path: str
    line: int
    column: int
    field: str
    code: str
    severity: Severity
    message: str
    pointer: str = ""
    """JSON pointer inside the file: ``/annotations/2``."""

    def __post_init__(self) -> None:
        # Here, not where messages are made: no value from the data gets around it.
        force_setattr(self, "message", printable(self.message))

    @property
    def location(self) -> str:
        """``path``, ``path:line``, ``path:line:column`` or ``path#/json/pointer``."""
        location = printable(self.path) or "-"
        if self.pointer:
            return f"{location}#{shorten(self.pointer, MOST_SHOWN)}"
        if self.line:
            location += f":{self.line}"
            if self.column:
                location += f":{self.column}"
        return location

    @property
    def head(self) -> str:
        """The text before the message: ``location: severity code [field]``."""
        field = f" [{shorten(self.field)}]" if self.field else ""
        return f"{self.location}: {self.severity} {self.code}{field}"

    def __str__(self) -> str:
        return f"{self.head} {self.message}"


class Placed(Protocol):
    """Tables that tell where each of their rows was read."""

    def location(self, row: int) -> tuple[str, int, str]:
        """Path, line and JSON pointer of a row."""
        ...


class Log:
    """Counts all issues and keeps a bounded number of each code, in the order in which they were reported."""

    def __init__(
        self, *, keep: int = KEPT_PER_CODE, track: Callable[[Sequence[Any], str], Iterable[Any]] | None = None
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.issues: list[Issue] = []
        self.notes: list[str] = []
        """Decisions that were taken for the user, each a sentence to be printed."""
        self._limit_per_code = keep
        self._track = track

    def report(
        self,
        code: Code,
        path: str | tuple[str, int, str],
        *,
        line: int = 0,
        column: int = 0,
        field: str = "",
        pointer: str = "",
        advice: str = "",
        **values: Any,
    ) -> None:
        """Report one fault; `values` fill the code's template (strings and bytes are made printable).

        It is counted, and kept unless as many of its code are kept already. In place of the path it takes
        path, line and JSON pointer, as `Dataset.location` gives them. `advice` is given in place of the
        code's own.
        """
        if not isinstance(path, str):
            path, line, pointer = path
        self.counts[code.name] += 1
        if self.counts[code.name] <= self._limit_per_code:
            shown = {k: _make_printable(v) for k, v in values.items()}
            message = f"{code.template.format(**shown)}; {advice or code.advice.format(**shown)}"
            self.issues.append(Issue(path, line, column, field, code.name, code.severity, message, pointer))

    def report_rows(
        self,
        code: Code,
        dataset: Placed,
        rows: NDArray[np.intp],
        values: Callable[[int], dict[str, Any]],
        *,
        field: str = "",
        reason: str = "",
    ) -> None:
        """Report the same fault of many boxes, the `rows` (n,) of `dataset`.

        All are counted; `values` is called with the row of each issue that is kept, and returns the values of
        the template. A `field` is also added to the JSON pointer of the row. If all have one `reason`, the
        name of a code, only the first is kept, and says how many more there are.
        """
        n_kept = max(0, self._limit_per_code - self.counts[code.name])
        if reason:
            n_kept = min(n_kept, 1)
        for row in rows[:n_kept].tolist():
            path, line, pointer = dataset.location(row)
            if pointer and field:
                pointer = f"{pointer}/{field}"
            self.report(code, path, line=line, pointer=pointer, field=field, **values(row))
        if reason and n_kept and len(rows) > 1:
            first_issue = self.issues[-1]  # the one that was just reported
            message = f"{first_issue.message} ({len(rows) - 1} more like it: {reason})"
            self.issues[-1] = replace(first_issue, message=message)
        self.counts[code.name] += max(0, len(rows) - n_kept)

    def fresh(self, *, keep: int | None = None) -> Log:
        """Return an empty log that keeps as many issues, for a parse that `extend` may take over later."""
        return Log(keep=self._limit_per_code if keep is None else keep, track=self._track)

    def keeps(self, code: Code) -> bool:
        """Whether the next issue of this code would be kept, not only counted."""
        return self.room(code) > 0

    def room(self, code: Code) -> int:
        """Return how many more issues of this code will be kept; not above 0 if none will."""
        return self._limit_per_code - self.counts[code.name]

    def note(self, text: str) -> None:
        """Keep a decision to be printed, once."""
        if text not in self.notes:
            self.notes.append(text)

    def withdraw(self, *names: str) -> None:
        """Remove all issues of the codes of these names, and their counts: a later finding disproves them."""
        self.issues = [issue for issue in self.issues if issue.code not in names]
        for name in names:
            del self.counts[name]

    def set_place(self, path: str) -> None:
        """Set the path of all issues that have none."""
        self.issues = [i if i.path else replace(i, path=path) for i in self.issues]

    def track(self, items: Sequence[T], what: str) -> Iterable[T]:
        """Yield the items; on a terminal a progress bar named `what` follows them."""
        return self._track(items, what) if self._track else items

    def extend(self, other: Log, *, once: bool = False) -> None:
        """Take over what another log keeps and counts; with `once`, no issue that this one keeps already."""
        seen_issues = set(self.issues) if once else ()
        for issue in other.issues:
            if issue not in seen_issues:
                self.take_over(issue)
        # Issues that the other log counted but did not keep are counted only.
        n_kept = Counter(issue.code for issue in other.issues)
        for name, n in other.counts.items():
            self.counts[name] += n - n_kept[name]
        for text in other.notes:
            self.note(text)

    def __iter__(self) -> Iterator[Issue]:
        return iter(self.issues)

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(n for name, n in self.counts.items() if CODES[name].severity == "error")

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return sum(n for name, n in self.counts.items() if CODES[name].severity == "warning")

    def take_over(self, issue: Issue) -> None:
        """Count an issue of another log, and keep it if there is room."""
        self.counts[issue.code] += 1
        if self.counts[issue.code] <= self._limit_per_code:
            self.issues.append(issue)

    @property
    def fatal(self) -> int:
        """The number of errors whose code has no ``row``: they concern a file or the whole dataset, so that
        leaving rows out (``--skip-bad``) does not remove them.
        """
        return sum(
            n for name, n in self.counts.items() if CODES[name].severity == "error" and not CODES[name].row
        )


class OdmError(Exception):
    """The base of what odm raises on purpose; ``exit_code`` is the command line's."""

    exit_code = 70


class DataError(OdmError):
    """The data has errors; ``log`` holds them, and ``truth`` those of a ground truth that is evaluated."""

    exit_code = 1

    def __init__(self, message: str, log: Log, truth: Log | None = None) -> None:
        super().__init__(message)
        self.log, self.truth = log, truth

    def __str__(self) -> str:
        first_errors = [str(issue) for issue in self.log.issues if issue.severity == "error"][:10]
        return "\n".join([self.args[0], *first_errors])


class UsageError(OdmError, ValueError):
    """The caller asked for something that does not exist or does not fit together."""

    exit_code = 2


class AmbiguousFormat(UsageError):
    """More than one format fits a source."""


class PathError(OdmError, OSError):
    """A source or a target is missing or not usable."""

    exit_code = 3


AS_FLAGS = ContextVar("AS_FLAGS", default=False)
"""Set by a command for its run: messages then name flags, where those of a Python function name keywords."""


def spell(option: str) -> str:
    """Spell the name of an option as its user does: ``--at-score`` or, in Python, ``at_score``."""
    return f"--{option.rstrip('_').replace('_', '-')}" if AS_FLAGS.get() else option


def spell_setting(setting: str, side: str = "") -> str:
    """Spell an option of a format, such as ``task=segment``: with ``-O`` or, in Python, as a keyword.

    `side` is ``gt`` or ``det`` for an option of one side. In capitals a value stands for one that the user
    chooses, such as ``NAME``.
    """
    if AS_FLAGS.get():
        return f"--{side}-O {setting}" if side else f"-O {setting}"
    key, _, value = setting.partition("=")
    return f"{side}{'_' if side else ''}{key}={value if value.isupper() else repr(value)}"


class Trusted(str):
    """Text that goes into a message as it is, neither cut nor quoted; the message as a whole is escaped."""

    __slots__ = ()


class Verbatim(Trusted):
    """`Trusted` for a value that is no text, such as ``false``; ``!r`` in a template does not quote it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Usual(str):
    """A note that seldom tells the user anything new; of many notes, only the others are printed."""

    __slots__ = ()


class _Value(str):
    """A value from the data, made printable: quoted it is not escaped a second time."""

    __slots__ = ()

    def __repr__(self) -> str:
        quote = '"' if "'" in self and '"' not in self else "'"
        return f"{quote}{self}{quote}"


def _make_printable(value: Any) -> Any:
    """Return a value as templates of messages take it: text is made printable and cut, numbers rounded."""
    if isinstance(value, Trusted):
        return value
    if hasattr(value, "item"):  # a NumPy number
        value = value.item()
    if value is None or isinstance(value, bool):
        return Verbatim({None: "null", False: "false", True: "true"}[value])  # as JSON and YAML spell them
    if isinstance(value, float):
        return round_noise(value)
    return value if isinstance(value, int) else _Value(shorten(value))


def round_noise(value: float, *, to_whole: bool = False) -> float:
    """Round away noise of arithmetic: 697.87 for 697.8699999999999.

    Values below 1 are rounded to 6 digits, others to 6 decimals. A value that would become whole stays,
    0.99999999 for example, so that a message does not say 1 where the fault is that it is not; with
    `to_whole` it is rounded too. Values from 1e9 on, infinite ones and NaN stay.
    """
    rounded = float(f"{value:.6g}") if abs(value) < 1 else round(value, 6)
    if to_whole and abs(value) < 1e-9:
        rounded = 0.0
    stays_off_whole = rounded.is_integer() and not to_whole
    return value if stays_off_whole or abs(value) >= 1e9 else rounded


def printable(text: str) -> str:
    """Escape everything in a text that could break or spoof a line of output."""
    if text.isprintable():
        return text
    unprintable = {c for c in set(text) if not c.isprintable()}
    return text.translate({ord(c): c.encode("unicode_escape", "surrogatepass").decode() for c in unprintable})


def shorten(value: object, limit: int = 80) -> str:
    """Return a value from the data as messages show it: printable, on one line, up to `limit` characters."""
    if isinstance(value, bytes):
        value = value[: 4 * limit + 4].decode("utf-8", "backslashreplace")  # up to 4 bytes a character
    text = printable(str(value)[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


def plural(n: int | str, noun: str, plural_noun: str = "") -> str:
    """Count things in words: ``1 error``, ``3 errors``; `plural_noun` if it does not end in s or es."""
    if n == 1:
        return f"1 {noun}"
    return f"{grouped(n)} {plural_noun or noun + ('es' if noun.endswith(('s', 'x')) else 's')}"


def grouped(n: int | str) -> str:
    """Format a number; from five digits on with a space before every three: ``32 977``."""
    return f"{n:,}".replace(",", " ") if isinstance(n, int) and abs(n) >= 10_000 else str(n)


def listed(names: Sequence[object], limit: int = 3) -> str:
    """Format the first `limit` names in quotes: ``'a', 'b', 'c' and 112 more``."""
    shown = ", ".join(repr(_Value(shorten(name))) for name in names[:limit])
    return f"{shown} and {grouped(len(names) - limit)} more" if len(names) > limit else shown


def first_few(values: Collection[Any], limit: int, show: Callable[[Any], str] = shorten) -> str:
    """Format the first `limit` values, each by `show`: ``a, b, ...``."""
    shown = ", ".join(map(show, itertools.islice(values, limit)))
    return f"{shown}, ..." if len(values) > limit else shown


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` most like `name`, ignoring letter case; None if none is like it.

    Names of more than 255 characters, and those after the first 2000, are not compared.
    """
    import difflib  # slow to import, and only mistakes need it

    if len(name) > 255:  # the comparison is quadratic in the length too
        return None
    candidate_by_folded: dict[str, str] = {}
    for candidate in names:
        if len(candidate) <= 255:
            candidate_by_folded.setdefault(candidate.casefold(), candidate)
        if len(candidate_by_folded) >= 2000:
            break
    matches = difflib.get_close_matches(name.casefold(), candidate_by_folded, n=1, cutoff=0.6)
    return candidate_by_folded[matches[0]] if matches else None


def hint(name: str, names: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)`` with the most similar of `names`, or nothing."""
    nearest_name = nearest(name, names)
    return f" (did you mean {shorten(nearest_name)!r}?)" if nearest_name else ""
