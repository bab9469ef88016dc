"""Object stores, reached through pyarrow with the provider's own credentials."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator
from typing import Any

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


def is_address(path: str) -> bool:
    """Whether a path that the user typed is an address of an object store."""
    return _ADDRESS.match(path) is not None


def refuse_other(path: str) -> None:
    """UsageError if a path that the user typed is an address of anything but an object store."""
    if found := _OTHER.match(path):
        raise UsageError(
            f"{printable(path)}: {found[0]} is not read, because it cannot be listed; give a folder, or "
            f"s3://, gs:// or abfss://"
        )


def refuse_target(path: str) -> None:
    """PathError if a path to write to is an address: a folder of that name is never meant."""
    if found := _OTHER.match(path):
        raise PathError(
            f"{printable(path)}: cannot write to {found[0]} addresses; write to a folder on this machine and "
            f"copy it"
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
        system, top = fs.FileSystem.from_uri(base + query)
        top = top.rstrip("/")
        if base.lower().startswith("a"):
            # Without credentials to ask about a container ends the process; to ask what is in one does not.
            system.get_file_info(f"{top}/odm")
    return system, top


@contextlib.contextmanager
def refused(address: str, more: str = "") -> Iterator[None]:
    """Raise a PathError that names an address for what its provider refuses; `more` is advice."""
    try:
        yield
    except faults() as e:
        advice = more or next((text for key, text in _ADVICE.items() if address.lower().startswith(key)), "")
        raise PathError(f"{printable(address)}: {reason(e)}; {advice}") from None


def faults() -> tuple[type[Exception], ...]:
    """What pyarrow raises where a store refuses; Azure's library raises what is no OSError."""
    from pyarrow.lib import ArrowException

    return OSError, ValueError, ArrowException


def reason(e: Exception) -> str:
    """The first line of what a provider says, without its diagnostics."""
    text = str(e).strip().split("\n")[0].split("\\n")[0].rpartition("with a last message of ")[2]
    for noise in (" error_info=", "; Details:", " The request was not sent"):
        text = text.split(noise)[0]
    return text[:300].rstrip(".") or type(e).__name__
