"""The ``odm`` command: finds the subcommands, and turns every end of a run into an exit code."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

import odm
from odm.cli._streams import say, screens, show
from odm.terminal import Unwritten

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from odm.issues import DataError

READER_LEFT = 141

COMMANDS = {
    "convert": "Convert annotations or detections from one format to another.",
    "eval": "Evaluate detections against ground truth.",
    "compare": "Compare several runs, with confidence intervals.",
    "agree": "Measure the agreement between two annotators.",
    "diff": "List what changed between two versions of annotations.",
    "validate": "Report every problem in annotations or detections.",
    "stats": "Summarise a dataset: objects, classes, sizes.",
    "show": "Write an HTML page with boxes drawn on the images.",
    "formats": "List the formats, or describe one.",
    "protocols": "List the protocols of eval, or describe one.",
    "example": "Write a small dataset with pictures to try odm on.",
    "completion": "Print or install shell completion.",
}
"""Name and one line of help of each subcommand; its file is imported when it is called."""

JOBS = {
    **dict.fromkeys(("split", "folds"), "odm convert SRC DST --split-into train:80,val:20"),
    **dict.fromkeys(("merge", "join"), "odm convert SRC SRC DST"),
    **dict.fromkeys(("tile", "slice"), "odm convert SRC DST --tile 640x640"),
    "untile": "odm convert SRC DST --untile",
    **dict.fromkeys(("sample", "subset"), "odm convert SRC DST --sample 500"),
    "filter": "odm convert SRC DST --only-classes A,B",
    "rename": "odm convert SRC DST --rename OLD=NEW",
    **dict.fromkeys(("fix", "repair"), "odm validate SRC --fix clip,dedupe --out DST"),
}
"""The command line of jobs that have no command of their own, by names that people try."""

EPILOG = """
`odm COMMAND -h` shows the common options and examples, `odm COMMAND --help` all options.

Exit codes: 0 done; 1 data errors, failed gate, or data loss under --strict; 2 usage error; 3 unusable source
or target; 70 internal error; 130 interrupted; 141 output closed early.
"""


class Terminated(BaseException):
    """SIGTERM arrived; what is half-done is cleaned up on the way out."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the file of a subcommand and return its command; None if there is no such command."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"odm.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run a subcommand, whose messages name flags."""
        from odm.issues import AS_FLAGS

        token = AS_FLAGS.set(True)
        try:
            return super().invoke(ctx)
        finally:
            AS_FLAGS.reset(token)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command or option; the base class would import every command."""
        from click.shell_completion import CompletionItem

        commands = [CompletionItem(n, help=h) for n, h in COMMANDS.items() if n.startswith(incomplete)]
        return commands or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # The base class would import every command for its line of help.
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve the command; an unknown one is refused with advice, for some words the command to use."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from odm.issues import hint

            job = JOBS.get(args[0].lower())
            advice = f"; the command is `{job}`" if job else hint(args[0], COMMANDS)
            ctx.fail(f"unknown command {args[0]!r}{advice}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(odm.__version__, prog_name="odm")
def app() -> None:
    """Evaluate, compare, convert and check object-detection files.

    \b
    odm eval groundtruths/ detections/ --iou 0.5
    odm eval instances.json results.json --images photos/ --report run.html
    odm convert --from yolo --to txt labels/ out/
    odm validate annotations.json --images photos/
    odm formats yolo
    odm example
    """  # noqa: D301 -- click reads the escape


def run(args: Sequence[str]) -> int:
    """Run the command line and return its exit code; only SIGTERM ends it in another way."""
    is_closed = sys.stdout is None
    if output := sys.modules.get("odm.files.output"):  # of a run before this one, in the same process
        output.PLACED.clear()
    with screens():
        if is_closed:
            return _fail("cannot write the output: standard output is closed", 3)
        with contextlib.suppress(ValueError, OSError):
            signal.signal(signal.SIGTERM, _terminate)
        if any("://" in word for word in args):  # an address: hide its secrets, let ctrl-C end a long wait
            from odm.files import conceal, end_soon

            args = [conceal(word) for word in args]
            end_soon()
        try:
            code = _run(list(args))
            sys.stdout.flush()
        except Unwritten as e:
            # The interpreter flushes once more at its end: into the null device, where that cannot fail.
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # noqa: TID251 -- no data file
            if isinstance(e.error, BrokenPipeError):
                return READER_LEFT  # as a command that SIGPIPE ends: whoever left needs no message
            return _fail(f"cannot write the output: {e.error.strerror or e.error}", 3)
        except KeyboardInterrupt:
            say(f"odm: interrupted; {_describe_changes()}")
            return 130
        except Terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return 143  # 128 + SIGTERM, where the signal does not end the process at once
    return code


def _describe_changes() -> str:
    """Say in words which outputs an interrupted run has written."""
    from odm.issues import printable

    output = sys.modules.get("odm.files.output")
    is_done_by_target: dict[str, bool] = output.PLACED if output else {}
    phrases = []
    for words, is_complete in (("written before", True), ("begun, so some files may be new", False)):
        if targets := [
            printable(target) for target, is_done in is_done_by_target.items() if is_done is is_complete
        ]:
            phrases.append(f"{words}: {', '.join(targets)}")
    return "; ".join(phrases) or "nothing was changed"


def _run(args: list[str]) -> int:
    """Run a command, print the message of the error that ends it, and return the exit code."""
    from odm.issues import DataError, OdmError

    if instruction := os.environ.get("_ODM_COMPLETE"):
        from odm.cli.completion import answer

        return answer(instruction, app)
    if not args:  # versions of click differ in what they do
        show(app.make_context("odm", [], resilient_parsing=True).get_help(), err=True)
        return 2
    try:
        result: Any = app.main(args, prog_name="odm", standalone_mode=False)
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:  # how the command is called, and what is wrong with this call
        context = getattr(e, "ctx", None)
        if context is not None:
            show(f"{context.get_usage()}\nTry '{context.command_path} -h' for help.\n\n", err=True)
        say(f"Error: {e.format_message()}")
        return 2
    except click.Abort:  # as click turns ctrl-C into
        raise KeyboardInterrupt from None
    except DataError as e:
        # The issues were printed where the log is known; this is the last line.
        return _fail(f"{e.args[0]}{_advise_skip_bad(args, e)}", e.exit_code)
    except OdmError as e:
        return _fail(_format_message(e), e.exit_code)
    except (Unwritten, KeyboardInterrupt):
        raise
    except Exception as e:  # noqa: BLE001 -- the last net: a traceback helps nobody at a command line
        # Without memory the system's loader says "failed to map segment from shared object".
        if isinstance(e, MemoryError) or (isinstance(e, ImportError) and "failed to map segment" in str(e)):
            return _fail("not enough memory for this data", 3)
        if isinstance(e, FileNotFoundError) and _is_folder_gone():
            return _fail("the working folder no longer exists: change to another one", 3)
        return _fail(
            f"internal error, please report it with the command and, if you can, the data: {_trace_error(e)}",
            70,
        )
    return result if isinstance(result, int) else 0  # several commands return nothing


def _advise_skip_bad(args: Sequence[str], error: DataError) -> str:
    """Advise ``--skip-bad``, if the command has it and only rows have errors; else return an empty text.

    If rows of the ground truth have errors, advise against it, and name the command that repairs them.
    """
    command = importlib.import_module(f"odm.cli.{args[0]}").command
    has_option = any(param.name == "skip_bad" for param in command.params) and "--skip-bad" not in args
    # `fatal` counts errors of a file or the whole dataset.
    has_only_row_errors = error.log is not None and error.log.errors and not error.log.fatal
    text = "; --skip-bad leaves out the rows with errors" if has_option and has_only_row_errors else ""
    if not text or error.truth is None or not error.truth.errors:  # `truth` is the log of the ground truth
        return text
    from odm.issues import CODES

    # The advice of a code may name a repair, as in "... (validate --fix clip)".
    codes = (CODES[name] for name in error.truth.counts if CODES[name].severity == "error")
    repairs = {match[1] for code in codes if (match := re.search(r"validate --fix ([a-z-]+)", code.advice))}
    repair_command = f" (odm validate GT --fix {','.join(sorted(repairs))} --out DIR)" if repairs else ""
    warning = "AP can rise without objects of the ground truth: correct these instead"
    return f"{text}, but {warning}{repair_command}"


def _is_folder_gone() -> bool:
    """Whether the working folder was removed, as by another process."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _format_message(error: Exception) -> str:
    """Return the message of an error, and that the working folder is gone if so."""
    words = str(error.args[0]) if error.args else str(error)
    is_folder_gone = isinstance(error, OSError) and _is_folder_gone()
    return f"{words} (the working folder no longer exists)" if is_folder_gone else words


def _trace_error(error: Exception) -> str:
    """Return the type and text of an unexpected error, and the last four calls of its traceback, on one line:
    ``ValueError: bad shape (a.py:12 > b.py:7)``, the innermost last.
    """
    import traceback

    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = (f"{os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames)
    return f"{type(error).__name__}: {error} ({' > '.join(places)})"


def _fail(message: str, code: int) -> int:
    say(f"odm: error: {message}")
    return code


def _terminate(*_: object) -> None:
    raise Terminated
