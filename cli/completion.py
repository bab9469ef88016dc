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
    chosen_shell = shell or os.path.basename(os.environ.get("SHELL", ""))
    if chosen_shell not in SHELLS:
        reason = f"SHELL={printable(chosen_shell)} is none of them" if chosen_shell else "SHELL is not set"
        raise UsageError(f"name the shell: {', '.join(SHELLS)} ({reason})")
    if not install:
        show(make_script(chosen_shell))
        return
    script_path, startup_file = find_places(chosen_shell)
    messages = [_write_if_changed(script_path, make_script(chosen_shell).encode(), "completion script")]
    if startup_file:
        messages.append(_add_line(startup_file, f"source {_quote(script_path)}  # completion of odm"))
    messages.append(f"start a new {chosen_shell}, or type: source {_quote(script_path)}")
    show("\n".join(messages))


def make_script(shell: str) -> str:
    """Make the completion script of a shell."""
    from click.shell_completion import ShellComplete, get_completion_class

    shell_class = get_completion_class(shell)
    assert shell_class is not None
    # Not the method of the class for bash, which starts bash to learn its version.
    text = ShellComplete.source(shell_class(click.Command("odm"), {}, "odm", VARIABLE)).strip() + "\n"
    if shell == "zsh":
        first_line, _, other_lines = text.partition("\n")  # "#compdef odm" must come first
        text = f"{first_line}\n{ZSH_START}{other_lines}"
    return text


def answer(instruction: str, app: click.Command) -> int:
    """Print the completions that a shell's script asks for, and return the exit code. Errors stay silent."""
    from click.shell_completion import get_completion_class

    shell, _, request = instruction.partition("_")
    shell_class = get_completion_class(shell) if shell in SHELLS else None
    if shell_class is None or request not in ("complete", "source"):
        return 1
    try:
        text = (
            shell_class(app, {}, "odm", VARIABLE).complete() if request == "complete" else make_script(shell)
        )
    except Exception:  # noqa: BLE001 -- a message would be printed into the line that is being typed
        return 1
    reply(text)
    return 0


def find_places(shell: str) -> tuple[str, str]:
    """Return a shell's script path and startup file (``""`` = none). PathError if HOME is no folder."""
    home = os.environ.get("HOME", os.path.expanduser("~"))
    if not (os.path.isabs(home) and os.path.isdir(home)):
        raise PathError(f"HOME={printable(home)}: not an existing folder; correct this variable")
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    if shell == "fish":
        return os.path.join(config, "fish", "completions", "odm.fish"), ""
    if shell == "zsh":
        startup_file = os.path.join(os.environ.get("ZDOTDIR") or home, ".zshrc")
        return os.path.join(data, "odm", "completion.zsh"), startup_file
    is_installed = any(map(os.path.exists, BASH_COMPLETION))
    script_path = os.path.join(data, "bash-completion", "completions", "odm")
    return script_path, "" if is_installed else os.path.join(home, ".bashrc")


def _write_if_changed(path: str, data: bytes, noun: str) -> str:
    """Write `data` to a file that does not hold it already, and say in words what was done.

    `noun` is what the message calls the file.
    """
    if _read_content(path) == data:
        return f"{noun} is up to date: {printable(path)}"
    with Output(path, single=True, overwrite=True) as output:
        output.write("", data)
    return f"{noun} written to {printable(path)}"


def _add_line(path: str, line: str) -> str:
    """Add a line to the end of a file that does not have it, and say in words what was done."""
    content = _read_content(path) or b""
    if line.encode() in content.splitlines():
        return f"{printable(path)} has the line already: {printable(line)}"
    gap = b"\n" if content and not content.endswith(b"\n") else b""
    with Output(path, single=True, overwrite=True) as output:
        output.write("", content + gap + line.encode() + b"\n")
    return f"added to {printable(path)}: {printable(line)}"


def _read_content(path: str) -> bytes | None:
    """Return the content of a file; None if there is no such file. Raises PathError if it cannot be read."""
    if not os.path.exists(path):
        return None
    try:
        return read_bytes(path)
    except Unreadable as e:
        raise PathError(f"{printable(path)}: {e}") from None


def _quote(path: str) -> str:
    import shlex

    return shlex.quote(path)
