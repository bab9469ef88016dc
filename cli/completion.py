"""``odm completion``, and the answers to the scripts that it prints."""

from __future__ import annotations

import os

import click

from odm.cli._streams import reply, show
from odm.files import Output, Unreadable, read_bytes
from odm.issues import PathError, UsageError, printable

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_ODM_COMPLETE"
"""The environment variable by which a script asks: ``bash_complete``, ``zsh_complete``, ``fish_complete``."""

EXAMPLES = """
\b
Examples:
  odm completion --install
  odm completion zsh --install
  eval "$(odm completion bash)"
"""

BASH_COMPLETION = (
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/share/bash-completion/bash_completion",
    "/opt/local/share/bash-completion/bash_completion",
    "/etc/profile.d/bash_completion.sh",
)
"""What the package bash-completion installs; with it bash finds a script by its name."""

ZSH_START = """\
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
"""
"""What the script of zsh needs where it is read without its completion system."""


@click.command(epilog=EXAMPLES)
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.option(
    "--install", is_flag=True, help="Install the script where the shell finds it, and print the path."
)
def command(shell: str | None, install: bool) -> None:
    """Print the completion script for SHELL, or install it for this user.

    SHELL is bash, zsh or fish; the default is the one in the variable SHELL. With --install, a line is added
    to ~/.zshrc for zsh, and to ~/.bashrc for bash if the package bash-completion is not installed.
    """
    chosen = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen not in SHELLS:
        reason = f"SHELL={printable(chosen)} is none of them" if chosen else "SHELL is not set"
        raise UsageError(f"name the shell: {', '.join(SHELLS)} ({reason})")
    if not install:
        show(script(chosen))
        return
    place, startup = places(chosen)
    messages = [_put(place, script(chosen).encode(), "completion script")]
    if startup:
        messages.append(_add_line(startup, f"source {_quoted(place)}  # completion of odm"))
    messages.append(f"start a new {chosen}, or type: source {_quoted(place)}")
    show("\n".join(messages))


def script(shell: str) -> str:
    """The completion script of a shell."""
    from click.shell_completion import ShellComplete, get_completion_class

    shell_class = get_completion_class(shell)
    assert shell_class is not None
    # Not the method of the class for bash, which starts bash to learn its version.
    text = ShellComplete.source(shell_class(click.Command("odm"), {}, "odm", VARIABLE)).strip() + "\n"
    if shell == "zsh":
        first, _, others = text.partition("\n")  # "#compdef odm" must come first
        text = f"{first}\n{ZSH_START}{others}"
    return text


def answer(instruction: str, app: click.Command) -> int:
    """Print the completions that a shell's script asks for, and return the exit code. Errors stay silent."""
    from click.shell_completion import get_completion_class

    shell, _, what = instruction.partition("_")
    shell_class = get_completion_class(shell) if shell in SHELLS else None
    if shell_class is None or what not in ("complete", "source"):
        return 1
    try:
        text = shell_class(app, {}, "odm", VARIABLE).complete() if what == "complete" else script(shell)
    except Exception:  # noqa: BLE001 -- a message would be printed into the line that is being typed
        return 1
    reply(text)
    return 0


def places(shell: str) -> tuple[str, str]:
    """Return where the script of a shell belongs, and the startup file that must name it, or ``""``."""
    home = os.environ.get("HOME", os.path.expanduser("~"))
    if not (os.path.isabs(home) and os.path.isdir(home)):
        raise PathError(f"HOME={printable(home)}: not an existing folder; correct this variable")
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    if shell == "fish":
        return os.path.join(config, "fish", "completions", "odm.fish"), ""
    if shell == "zsh":
        startup = os.path.join(os.environ.get("ZDOTDIR") or home, ".zshrc")
        return os.path.join(data, "odm", "completion.zsh"), startup
    is_installed = any(map(os.path.exists, BASH_COMPLETION))
    place = os.path.join(data, "bash-completion", "completions", "odm")
    return place, "" if is_installed else os.path.join(home, ".bashrc")


def _put(path: str, data: bytes, what: str) -> str:
    """Write a file that does not hold this already. Returns what was done."""
    if _content(path) == data:
        return f"{what} is up to date: {printable(path)}"
    with Output(path, single=True, overwrite=True) as output:
        output.write("", data)
    return f"{what} written to {printable(path)}"


def _add_line(path: str, line: str) -> str:
    """Add a line to the end of a file that does not have it. Returns what was done."""
    content = _content(path) or b""
    if line.encode() in content.splitlines():
        return f"{printable(path)} has the line already: {printable(line)}"
    gap = b"\n" if content and not content.endswith(b"\n") else b""
    with Output(path, single=True, overwrite=True) as output:
        output.write("", content + gap + line.encode() + b"\n")
    return f"added to {printable(path)}: {printable(line)}"


def _content(path: str) -> bytes | None:
    """The content of a file; None if there is no such file. Raises PathError if it cannot be read."""
    if not os.path.exists(path):
        return None
    try:
        return read_bytes(path)
    except Unreadable as e:
        raise PathError(f"{printable(path)}: {e}") from None


def _quoted(path: str) -> str:
    import shlex

    return shlex.quote(path)
