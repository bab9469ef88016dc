"""``odm eval``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click
import numpy as np

from odm.cli._analysis import Asked
from odm.cli._common import (
    FormatCommand,
    format_options,
    lines_of_files,
    request_of,
    split_names,
    terminal_log,
)
from odm.cli._messages import GITHUB, print_annotations, print_failed, print_log
from odm.cli._options import (
    PATH,
    TARGET,
    ProtocolChoice,
    all_of,
    choice,
    common_options,
    complete_list,
    format_choice,
    option,
    skip_bad_files_option,
    skip_bad_option,
    switch,
    wide_option,
)
from odm.cli._print import say, show, table_width
from odm.cli._report import (
    check_markdown,
    markdown_option,
    pictures_of,
    report_options,
    report_target,
    write_markdown,
    write_report,
)
from odm.converters import Edits, KeptTruth, Ledger, load_pair
from odm.converters.edit import apply, parse_renames
from odm.converters.image_labels import read_descriptions, read_hierarchy, read_image_labels
from odm.converters.load import check_one_run
from odm.evaluate import (
    OUTPUTS,
    PROTOCOLS,
    TUBE_PROTOCOLS,
    Evaluation,
    Protocol,
    evaluate,
    render,
    resolve,
    save,
)
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.output.render import headline
from odm.evaluate.scores.changes import check_scores, check_tubes
from odm.evaluate.scores.metric_names import failures, parse_gate, the_one
from odm.files import Output
from odm.issues import Log, OdmError, UsageError, shorten
from odm.tables import Dataset

EXAMPLES = """
\b
Examples:
  odm eval groundtruths/ detections/ --iou 0.5
  odm eval gt/ det/ --iou 0.3 --protocol voc2012 --protocol voc2007
  odm eval labels/ predictions/ --images photos/ --det-box ltwh
  odm eval instances.json results.json --protocol coco --output json
  odm eval instances.json results.json --protocol coco --fail-under mAP50=0.5
  odm eval instances.json results.json --protocol coco --area tiny=0:256
  odm eval gt/ det/ --fail-under mAP=0.5 --fail-under 'AP[person]=0.4'
  odm eval gt/ det/ --save run1/ --plots run1-plots/
  odm eval instances.json results.json --images photos/ --report run.html
  odm eval gt/ det/ --rename 'motor bike=motorbike' --extra-images ignore
"""

RULES = ("interpolation", "area", "max_dets", "recall_at", "keep_difficult", "pixels")

OF_BOXES = "analyze ci thresholds at_scores plots report image_labels hierarchy".split()
"""Options that a protocol that measures tracks refuses."""
SWITCHES = (*RULES, "score_min", "at_score", "extra_images", "class_agnostic", "diagnose")


WHOLE = (
    "save_to plots report analyze confusion ci thresholds at_scores class_agnostic diagnose rename "
    "skip_bad skip_bad_files".split()
)
"""Options that look at all detections at once."""


def whole_numbers(_: click.Context, parameter: click.Parameter, text: str | None) -> list[int] | None:
    """The whole numbers in ``1,10``. UsageError if the text is anything else."""
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(
            f"{parameter.opts[0]} {shorten(text)}: expected whole numbers from 1, as in 1,10,50"
        ) from None


def _analyses() -> Iterable[str]:  # imported when a shell asks
    from odm.evaluate.analysis.analyses import ANALYSES

    return ANALYSES


SHARED = all_of(
    choice(
        "--output",
        [*OUTPUTS, GITHUB],
        "Output format; github: the table and GitHub Actions annotations.",
        default="table",
    ),
    wide_option,
    markdown_option,
    switch("--diagnose", "Look for what explains the result, however good it is."),
    switch("--class-agnostic", "Ignore classes: treat all boxes as one class."),
    option("--score-min SCORE", "Drop detections with a lower score.", of=float),
    option("--max-dets N", "Keep at most N detections per image and class (lvis: per image).", of=int),
    option(
        "--recall-at K,K",
        "coco: also report average recall of the best K detections per image and class.",
        callback=whole_numbers,
    ),
    option(
        "--area [NAME=]LOW:HIGH",
        "Evaluate only boxes of this area: small, medium, large, or LOW:HIGH in square pixels. "
        "NAME=LOW:HIGH (repeatable): also report AP@NAME and so on.",
        multiple=True,
    ),
    choice("--interpolation", ["all", "11", "101"], "Recall points for AP."),
    choice("--pixels", ["edges", "inclusive"], "Box width: right - left, or right - left + 1."),
    switch("--keep-difficult", "Count difficult objects like any other.", default=None),
    option("--only-classes A,B", "Evaluate only these classes."),
    option("--only-images A,B|@FILE", "Evaluate only these images; @FILE: one name per line."),
    choice(
        "--extra-images",
        ["error", "background", "ignore"],
        "Images that only DET has: an error, background (false positives), or ignored.",
        default="error",
    ),
    option(
        "--rename OLD=NEW", "Rename a class of DET (repeatable); @FILE: one OLD=NEW per line.", multiple=True
    ),
    option("--image-labels FILE", "Image-level labels of Open Images (CSV).", of=PATH),
    switch("--merge-runs", "Pool several results files of the same images in the folder DET."),
    option("--hierarchy FILE", "Class hierarchy of Open Images (JSON).", of=PATH),
    format_choice("--gt-format", "GT"),
    format_choice("--det-format", "DET"),
    option("--gt-encoding NAME", "Encoding of the text files of GT.", default=""),
    option("--det-encoding NAME", "Encoding of the text files of DET.", default=""),
    skip_bad_option,
    skip_bad_files_option,
    format_options("gt", "det"),
    common_options,
)
"""The options of compare, too."""


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("det", metavar="DET", type=click.Path())
@option("--iou IOU", "IoU threshold (repeatable). [default: the protocol's]", of=float, multiple=True)
@option(
    "--protocol NAME",
    f"Evaluation protocol (repeatable): {', '.join(PROTOCOLS)}; for tracks {', '.join(TUBE_PROTOCOLS)}.",
    of=ProtocolChoice([*PROTOCOLS, *TUBE_PROTOCOLS]),
    multiple=True,
    default=["voc2012"],
)
@option("--save DIR", "Also write results.json and CSV files to DIR.", "save_to", of=TARGET)
@option("--plots DIR", "Also draw plots as PNG and SVG (extra [plot]).", of=TARGET)
@report_options()
@switch("--overwrite", "Replace existing files in the targets of --save, --plots, --report.")
@option(
    "--fail-under KEY=BOUND",
    "Exit with 1 if a metric is lower (repeatable): mAP=0.5, AP[person]=0.4.",
    multiple=True,
)
@option(
    "--analyze A,B|all",
    "Analyse errors: any of tide, lrp, calibration, images, slices.",
    shell_complete=complete_list(_analyses),
)
@choice(
    "--confusion",
    ["counts", "gt", "det"],
    "Confusion matrix: counts (default), or normalised by GT or detected class.",
    is_flag=False,
    flag_value="counts",
)
@switch("--ci", "Add confidence intervals, by resampling images.")
@option("--replicates N", "Bootstrap replicates of --ci.", of=int, default=1000)
@option("--seed N", "Random seed of --ci.", of=int, default=0)
@switch("--bootstrap-areas", "With --ci, also for area ranges (slower).")
@option(
    "--tags FILE",
    "CSV of image properties (columns: image, others), or list of images: slices for --analyze (repeatable).",
    of=PATH,
    multiple=True,
)
@option(
    "--thresholds RULE",
    "Choose a score threshold per class: f1, fbeta:B, precision:P, recall:R, cost:FP:FN, lrp.",
)
@option("--save-thresholds FILE", "Write the thresholds chosen by --thresholds.", of=TARGET)
@option("--at-scores FILE", "Use the thresholds in FILE, written by --save-thresholds.", of=PATH)
@option(
    "--at-score SCORE", "Score threshold for precision, recall, F1. [default: that of the best F1]", of=float
)
@option("--memory SIZE", "Read DET in parts, using about this much memory: 2GB (Parquet and COCO results).")
@option(
    "--cluster ADDRESS", "Process DET on the workers of a Dask scheduler: tcp://host:8786 (extra [cluster])."
)
@option(
    "--scratch DIR",
    "Folder for intermediate files of --memory and --cluster; they are deleted at the end.",
    of=TARGET,
)
@option("--rows-per-task N", "Number of detections per task.", of=click.IntRange(1))
@SHARED
def command(gt: str, det: str, **given: Any) -> int:
    """Evaluate the detections DET against the ground truth GT, each in any format."""
    log = terminal_log()
    gates = [parse_gate(text) for text in given["fail_under"]]
    renames = parse_renames(lines_of_files(given["rename"]))
    rules = rules_of(given)
    for gate in gates:  # before anything is read
        the_one(gate.name, rules, f"--fail-under {gate}")
    asked = Asked.of(given, rules)
    partwise = in_parts(given, rules)
    outputs = {
        name: Output(given[name], overwrite=given["overwrite"], dry_run=True)
        for name in ("save_to", "plots")
        if given[name]
    }
    report_target(given, sources=(gt, det))
    check_markdown(given)
    if "plots" in outputs:
        from odm.drawing import check_matplotlib

        check_matplotlib()  # before the work, not after it
    try:
        datasets = None
        if partwise:
            evaluation = evaluate_in_parts(gt, det, given, log)
        else:
            evaluation, datasets = evaluate_files(gt, det, given, renames, log)
        evaluation = asked.applied(evaluation, datasets and datasets[0], log)
    finally:  # before the numbers, which stay in view; what puts them in doubt is never hidden
        print_messages(log, given)
    for output in outputs.values():  # before the numbers; every input is known by now
        output.check_apart()
    failed, unknown = failures(evaluation, gates) if gates else ([], [])
    try:  # before the numbers too, which are the last thing on the screen
        _write(evaluation, datasets, asked, (gt, det), given)
        if given["markdown"]:
            write_markdown(render(evaluation, "markdown"), (*failed, *unknown), given)
    except OdmError:
        _show(evaluation, given)
        raise
    _show(evaluation, given)
    print_failed(failed, github=given["output"] == GITHUB)
    for line in unknown:
        say(f"odm: error: {line}")
    return 2 if unknown else 1 if failed else 0


def _write(
    evaluation: Evaluation,
    datasets: tuple[Dataset, Dataset] | None,
    asked: Asked,
    sources: tuple[str, str],
    given: dict[str, Any],
) -> None:
    """Write the files that were asked for; the report first, for it looks pictures up."""
    if given["report"] and datasets is not None:
        _report(evaluation, datasets, sources, given)
    if given["save_to"]:
        with Output(given["save_to"], overwrite=given["overwrite"]) as output:
            save(evaluation, output.write)
    if given["plots"]:
        from odm.evaluate.output.plots import draw

        with Output(given["plots"], overwrite=given["overwrite"]) as output:
            draw(evaluation, output.write)
    asked.save_thresholds(evaluation)


def _show(evaluation: Evaluation, given: dict[str, Any]) -> None:
    output = printed_as(given)
    text = render(evaluation, output, width=table_width(given))
    lines = {headline(result) for result in evaluation.results} if output == "table" else set()
    show(text, headlines=lines)


def printed_as(given: dict[str, Any]) -> str:
    """The output that the numbers are rendered as."""
    return "table" if given["output"] == GITHUB else str(given["output"])


def print_messages(log: Log, given: dict[str, Any]) -> None:
    """Print the log; what puts the numbers in doubt comes first and is never hidden."""
    if given["output"] == GITHUB:
        print_annotations(log, given, first=DOUBTFUL)
        return
    print_log(log, given, first=DOUBTFUL if given["quiet"] or not log.errors else ())


def rules_of(given: dict[str, Any]) -> list[Protocol]:
    """The protocols that are asked for; wrong values are said before anything is read."""
    with names_as_flags():
        check_scores(at_score=given["at_score"], score_min=given["score_min"])
        rules = resolve(
            list(dict.fromkeys(given["protocol"])),
            iou=list(dict.fromkeys(given["iou"])) or None,
            **{name: given[name] for name in RULES},
        )
        check_tubes(rules, {f"--{name.replace('_', '-')}": given.get(name) for name in OF_BOXES})
    return rules


@contextlib.contextmanager
def names_as_flags() -> Iterator[None]:
    """Word a `UsageError`, which begins with the name of what is wrong, with the flag of that name."""
    try:
        yield
    except UsageError as e:
        text = str(e.args[0])
        name = text.split(" ", 1)[0].removesuffix(":")
        if name in {"iou", "at_score", "protocol", "only_classes", "only_images", *SWITCHES}:
            raise UsageError(f"--{name.replace('_', '-')}{text[len(name) :]}") from None
        raise


def only_names(option: str, given: dict[str, Any]) -> Sequence[str] | None:
    """The names in ``A,B``, or the lines of the file in ``@FILE``. UsageError if there is none."""
    text = given[option]
    if text is None:
        return None
    names = lines_of_files([text]) if text.startswith("@") else split_names(text)
    if not names:
        raise UsageError(f"{option} {shorten(text)!r}: there is no name in it")
    return names


def arguments(given: dict[str, Any], log: Log) -> dict[str, Any]:
    """What `evaluate` is asked for."""
    options = given["options"]
    classes = options["gt"].get("classes", options[""].get("classes"))
    mids = given["image_labels"] or given["hierarchy"]
    names = read_descriptions(classes, log) if classes and mids else {}
    image_labels = read_image_labels(given["image_labels"], log, names) if given["image_labels"] else None
    hierarchy = read_hierarchy(given["hierarchy"], log, names) if given["hierarchy"] else None
    return {
        "protocol": list(dict.fromkeys(given["protocol"])),
        "iou": list(dict.fromkeys(given["iou"])) or None,
        "only_classes": only_names("only_classes", given),
        "only_images": only_names("only_images", given),
        "image_labels": image_labels,
        "hierarchy": hierarchy,
        **{name: given[name] for name in SWITCHES},
    }


def evaluate_files(
    gt_path: str,
    det_path: str,
    given: dict[str, Any],
    renames: dict[str, str],
    log: Log,
    kept: KeptTruth | None = None,
) -> tuple[Evaluation, tuple[Dataset, Dataset]]:
    """Read both sides and evaluate them as the arguments say; `kept` is for several runs."""
    with names_as_flags():
        asked = arguments(given, log)
    loaded = load_pair(
        request_of(gt_path, given, "gt", "gt"),
        request_of(det_path, given, "det", "det"),
        log,
        skip_bad=given["skip_bad"],
        skip_bad_files=given["skip_bad_files"],
        spare=("images",) if given.get("report") else (),
        kept=kept,
    )
    gt, det = loaded[0].dataset, loaded[1].dataset
    if not given["merge_runs"]:
        check_one_run(det)
    with names_as_flags():
        text = given["only_images"] or ""
        if text.lower().endswith(".txt") and text not in gt.images.name and os.path.isfile(text):
            raise UsageError(f"only_images {shorten(text)}: for the names in this file give @{shorten(text)}")
        if renames:
            n = np.bincount(det.boxes.category, minlength=len(det.categories)).tolist()
            for name, count in zip(det.categories.name, n, strict=True):
                if name in renames:
                    log.note(f"--rename: {name!r} of {count} detections is read as {renames[name]!r}")
            det = apply(Edits(rename=renames), det, Ledger("", ""))
        return evaluate(gt, det, log=log, **asked), (gt, loaded[1].dataset)


def in_parts(given: dict[str, Any], rules: Sequence[Protocol]) -> bool:
    """Whether the detections are read a part at a time. UsageError if something else forbids it."""
    if given["memory"] is None and given["cluster"] is None:
        for name, flag in (("scratch", "--scratch"), ("rows_per_task", "--rows-per-task")):
            if given[name] is not None:
                raise UsageError(f"{flag} is used with --memory or --cluster only")
        return False
    if given["cluster"] is not None and given["scratch"] is None:
        raise UsageError("--cluster needs --scratch DIR: a folder that all workers share")
    for name in WHOLE:
        if given[name]:
            flag = f"--{name.removesuffix('_to').replace('_', '-')}"
            raise UsageError(f"{flag} needs all detections at once: leave it out, or --memory and --cluster")
    from odm.evaluate.parts import shards

    shards.check_rules(rules)
    return True


def evaluate_in_parts(gt: str, det: str, given: dict[str, Any], log: Log) -> Evaluation:
    """Evaluate a part of the detections at a time."""
    asked = arguments(given, log)
    del asked["class_agnostic"]
    from odm.evaluate.parts.cluster import dask_executor
    from odm.sharding import evaluate_shards, parse_memory

    try:
        memory = None if given["memory"] is None else parse_memory(given["memory"])
    except ValueError as e:
        raise UsageError(f"--memory {given['memory']}: {e}") from None

    def tell(text: str) -> None:
        if not given["quiet"]:
            say(f"note: {text}")

    with contextlib.ExitStack() as stack:
        executor = None
        if given["cluster"] is not None:
            executor = stack.enter_context(dask_executor(given["cluster"], tell))
        return evaluate_shards(
            request_of(gt, given, "gt", "gt"),
            request_of(det, given, "det", "det"),
            executor=executor,
            scratch=given["scratch"],
            rows_per_task=given["rows_per_task"],
            memory=memory,
            log=log,
            tell=tell,
            **asked,
        )


def _report(
    evaluation: Evaluation,
    datasets: tuple[Dataset, Dataset],
    sources: tuple[str, str],
    given: dict[str, Any],
) -> None:
    from odm.report import evaluation_page

    pictures = pictures_of(evaluation.joined.images, datasets, given)
    page = evaluation_page(
        evaluation,
        pictures,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
        doubtful=DOUBTFUL,
    )
    write_report(page, given, sources)
