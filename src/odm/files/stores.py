"""Object stores, reached through pyarrow with the provider's own credentials."""

from __future__ import annotations

import contextlib
import functools
import itertools
import queue
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from odm.files.opening import Unreadable
from odm.issues import PathError, UsageError, printable

_ADDRESS = re.compile(r"(s3|gs|gcs|abfss?)://[^/]", re.IGNORECASE)
_OTHER = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)

_ADVICE = {
    "s3": "check the address, the network and the credentials (AWS_PROFILE, or AWS_ACCESS_KEY_ID)",
    "g": "check the address, the network and the credentials (GOOGLE_APPLICATION_CREDENTIALS; "
    "gs://anonymous@BUCKET/ reads a public bucket)",
    "a": "check the address, the network and the credentials (AZURE_CLIENT_ID and the like, or az login)",
}
"""By how the scheme begins."""

_SECONDS = 15
"""How long Google's library tries again, whose own limit is 15 minutes; the address may say otherwise."""
PATIENCE = 25.0
"""Seconds that a process waits in vain for a store, over all its calls."""
CHUNK = 2**24
"""Bytes that are asked for at once, so that a large file on a slow line is no store that does not answer."""

T = TypeVar("T")

_SECRETS = re.compile(
    r"(?P<user>(?<=://)[^/@:?]+:.*(?=@))|(?P<value>(?<==)(?<=key=|ret=|ken=|ord=|sig=)[^&]+)", re.IGNORECASE
)
"""``KEY:SECRET`` in ``s3://KEY:SECRET@bucket``, and the values of account_key, client_secret, session_token,
password and sig in the query."""
_hidden: dict[str, str] = {}
"""What stands for each secret in the addresses of this process, and the secret."""


def conceal(address: str) -> str:
    """An address in which ``***`` stands for its credentials, so that it can be shown, logged and saved."""
    if "://" not in address:
        return address

    def star(found: re.Match[str]) -> str:
        if found[0] in _hidden:
            return found[0]
        for number in itertools.count(1):
            label = f"***{'' if number == 1 else number}"
            if _hidden.setdefault(label, found[0]) == found[0]:
                return label
        raise AssertionError

    return _SECRETS.sub(star, address)


def reveal(address: str) -> str:
    """The address that was concealed; to be handed to a provider or to a process of odm, and nothing else."""
    return re.sub(r"(?<=://|..=)\*\*\*\d*(?=@|&|$)", lambda found: _hidden.get(found[0], found[0]), address)


def is_address(path: str) -> bool:
    """Whether a path that the user typed is an address of an object store."""
    return _ADDRESS.match(path) is not None


def refuse_other(path: str) -> None:
    """UsageError if a path that the user typed is an address of anything but an object store."""
    if found := _OTHER.match(path):
        raise UsageError(
            f"{printable(conceal(path))}: {found[0]} is not read, because it cannot be listed; give a "
            f"folder, or s3://, gs:// or abfss://"
        )


def refuse_target(path: str) -> None:
    """PathError if a path to write to is an address: a folder of that name is never meant."""
    if found := _OTHER.match(path):
        raise PathError(
            f"{printable(conceal(path))}: cannot write to {found[0]} addresses; write to a folder on this "
            f"machine and copy it"
        )


def split_query(address: str) -> tuple[str, str]:
    """An address without its ``?endpoint_override=...``, and that."""
    base, mark, query = address.partition("?")
    return base.rstrip("/"), mark + query


@functools.lru_cache(maxsize=8)
def connect(address: str) -> tuple[Any, str]:
    """The file system of pyarrow at an address, and the path in it.

    Raises
    ------
    PathError
        If it cannot be reached.
    UsageError
        If pyarrow is not installed.
    """
    try:
        from pyarrow import fs
    except ImportError:
        raise UsageError(
            f"{printable(address)}: an object store needs pyarrow: pip install pyarrow"
        ) from None
    base, query = split_query(address)
    if base.lower().startswith("g") and "retry_limit_seconds" not in query:
        query += f"{'&' if query else '?'}retry_limit_seconds={_SECONDS}"
    with refused(address):
        system, top = ask(address, fs.FileSystem.from_uri, reveal(base + query))
        top = top.rstrip("/")
        if base.lower().startswith("a"):
            # Without credentials to ask about a container ends the process; to ask what is in one does not.
            ask(address, system.get_file_info, f"{top}/odm")
    return system, top


_waited: defaultdict[str, float] = defaultdict(float)
"""Seconds that calls that failed have taken, by store."""


def ask(address: str, call: Callable[..., T], *args: Any, patience: float | None = PATIENCE) -> T:
    """``call(*args)`` of a provider's library, in a thread of its own, so that signals are answered.

    Providers try again in their own ways, some for many minutes; and a store that fails in one call is asked
    again in the next. Their failures together may take `patience` seconds, None = any.

    Raises
    ------
    PathError
        If they take longer. What the call raises is raised here.
    """
    store = address.partition("?")[0].split("/")[2]
    if patience is not None and (patience := patience - _waited[store]) <= 0:
        raise _silent(address)
    answers: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put((call(*args), None))
        except BaseException as e:  # noqa: BLE001 -- it is raised where it is waited for
            answers.put((None, e))

    begun = time.monotonic()
    threading.Thread(target=work, daemon=True).start()
    try:
        result, error = answers.get(timeout=patience)
    except queue.Empty:
        _waited[store] += time.monotonic() - begun
        raise _silent(address) from None
    if error is not None:
        _waited[store] += time.monotonic() - begun
        raise error
    return result  # type: ignore[return-value]


def _silent(address: str) -> PathError:
    return PathError(f"{printable(address)}: the store does not answer; {_advice(address)}")


def _advice(address: str) -> str:
    return next((text for key, text in _ADVICE.items() if address.lower().startswith(key)), "")


@contextlib.contextmanager
def refused(address: str, more: str = "") -> Iterator[None]:
    """Raise a PathError that names an address for what its provider refuses; `more` is advice."""
    try:
        yield
    except PathError:
        raise
    except faults() as e:
        raise PathError(f"{printable(address)}: {reason(e)}; {more or _advice(address)}") from None


def faults() -> tuple[type[Exception], ...]:
    """What pyarrow raises where a store refuses; Azure's library raises what is no OSError."""
    from pyarrow.lib import ArrowException

    return OSError, ValueError, Unreadable, ArrowException


def reason(e: Exception) -> str:
    """The first line of what a provider says, without its diagnostics."""
    text = str(e).strip().split("\n")[0].split("\\n")[0].rpartition("with a last message of ")[2]
    for noise in (" error_info=", "; Details:", " The request was not sent"):
        text = text.split(noise)[0]
    for label, secret in _hidden.items():  # which a provider may repeat
        text = text.replace(secret, label)
    return text[:300].rstrip(".") or type(e).__name__
