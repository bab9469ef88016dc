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
    ProtocolChoice,
    TargetPath,
    common_options,
    complete_list,
    format_choice,
    format_options,
    lines_of_files,
    print_log,
    reading,
    split_names,
    table_width,
    terminal_log,
    wide_option,
)
from odm.cli._markdown import check_markdown, markdown_option, write_markdown
from odm.cli._messages import GITHUB, print_annotations, print_failed
from odm.cli._parts import evaluate_in_parts, in_parts, parts_options
from odm.cli._print import say, show
from odm.cli._report import pictures_of, report_options, report_target, write_report
from odm.converters import Edits, KeptTruth, Ledger, Request, load_pair
from odm.converters.edit import apply, parse_renames
from odm.converters.labels import read_descriptions, read_hierarchy, read_image_labels
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
from odm.evaluate.scores.metric_names import check_gates, failures, parse_gate
from odm.evaluate.scores.switches import check_scores
from odm.evaluate.tubes import check_rules
from odm.files import Output
from odm.issues import Log, OdmError, UsageError, shorten
from odm.tables import Dataset, Kind

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
SWITCHES = (*RULES, "score_min", "at_score", "extra_images", "class_agnostic")


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


def _analyses() -> Iterable[str]:
    from odm.evaluate.analysis.attach import ANALYSES

    return ANALYSES


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("det", metavar="DET", type=click.Path())
@click.option(
    "--iou",
    type=float,
    metavar="IOU",
    multiple=True,
    help="IoU threshold (repeatable). [default: the protocol's]",
)
@click.option(
    "--protocol",
    type=ProtocolChoice([*PROTOCOLS, *TUBE_PROTOCOLS]),
    multiple=True,
    default=["voc2012"],
    show_default=True,
    metavar="NAME",
    help=f"Evaluation protocol (repeatable): {', '.join(PROTOCOLS)}; for tracks {', '.join(TUBE_PROTOCOLS)}.",
)
@click.option(
    "--output",
    type=click.Choice([*OUTPUTS, GITHUB]),
    default="table",
    show_default=True,
    help="Output format; github: the table and GitHub Actions annotations.",
)
@wide_option
@click.option(
    "--save",
    "save_to",
    type=TargetPath(),
    metavar="DIR",
    help="Also write results.json and CSV files to DIR.",
)
@click.option(
    "--plots", type=TargetPath(), metavar="DIR", help="Also draw plots as PNG and SVG (extra [plot])."
)
@markdown_option
@report_options()
@click.option(
    "--overwrite", is_flag=True, help="Replace existing files in the targets of --save, --plots, --report."
)
@click.option(
    "--fail-under",
    multiple=True,
    metavar="KEY=BOUND",
    help="Exit with 1 if a metric is lower (repeatable): mAP=0.5, AP[person]=0.4.",
)
@click.option(
    "--analyze",
    metavar="A,B|all",
    shell_complete=complete_list(_analyses),
    help="Analyse errors: any of tide, lrp, calibration, images, slices.",
)
@click.option(
    "--confusion",
    type=click.Choice(["counts", "gt", "det"]),
    is_flag=False,
    flag_value="counts",
    help="Confusion matrix: counts (default), or normalised by GT or detected class.",
)
@click.option("--ci", is_flag=True, help="Add confidence intervals, by resampling images.")
@click.option(
    "--replicates",
    type=int,
    metavar="N",
    default=1000,
    show_default=True,
    help="Bootstrap replicates of --ci.",
)
@click.option("--seed", type=int, metavar="N", default=0, show_default=True, help="Random seed of --ci.")
@click.option("--bootstrap-areas", is_flag=True, help="With --ci, also for area ranges (slower).")
@click.option(
    "--tags",
    type=click.Path(),
    multiple=True,
    metavar="FILE",
    help="CSV of image properties (columns: image, others), or list of images: slices for --analyze "
    "(repeatable).",
)
@click.option(
    "--thresholds",
    metavar="RULE",
    help="Choose a score threshold per class: f1, fbeta:B, precision:P, recall:R, cost:FP:FN, lrp.",
)
@click.option(
    "--save-thresholds",
    type=TargetPath(),
    metavar="FILE",
    help="Write the thresholds chosen by --thresholds.",
)
@click.option(
    "--at-scores",
    type=click.Path(),
    metavar="FILE",
    help="Use the thresholds in FILE, written by --save-thresholds.",
)
@click.option("--class-agnostic", is_flag=True, help="Ignore classes: treat all boxes as one class.")
@click.option(
    "--at-score",
    type=float,
    metavar="SCORE",
    help="Score threshold for precision, recall, F1. [default: that of the best F1]",
)
@click.option("--score-min", type=float, metavar="SCORE", help="Drop detections with a lower score.")
@click.option(
    "--max-dets",
    type=int,
    metavar="N",
    help="Keep at most N detections per image and class (lvis: per image).",
)
@click.option(
    "--recall-at",
    metavar="K,K",
    callback=whole_numbers,
    help="coco: also report average recall of the best K detections per image and class.",
)
@click.option(
    "--area",
    multiple=True,
    metavar="[NAME=]LOW:HIGH",
    help="Evaluate only boxes of this area: small, medium, large, or LOW:HIGH in square pixels. "
    "NAME=LOW:HIGH (repeatable): also report AP@NAME and so on.",
)
@click.option("--interpolation", type=click.Choice(["all", "11", "101"]), help="Recall points for AP.")
@click.option(
    "--pixels",
    type=click.Choice(["edges", "inclusive"]),
    help="Box width: right - left, or right - left + 1.",
)
@click.option("--keep-difficult", is_flag=True, default=None, help="Count difficult objects like any other.")
@click.option("--only-classes", metavar="A,B", help="Evaluate only these classes.")
@click.option(
    "--only-images", metavar="A,B|@FILE", help="Evaluate only these images; @FILE: one name per line."
)
@click.option(
    "--extra-images",
    type=click.Choice(["error", "background", "ignore"]),
    default="error",
    show_default=True,
    help="Images that only DET has: an error, background (false positives), or ignored.",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="Rename a class of DET (repeatable); @FILE: one OLD=NEW per line.",
)
@click.option(
    "--image-labels",
    type=click.Path(),
    metavar="FILE",
    help="Image-level labels of Open Images (CSV).",
)
@click.option(
    "--merge-runs", is_flag=True, help="Pool several results files of the same images in the folder DET."
)
@click.option("--hierarchy", type=click.Path(), metavar="FILE", help="Class hierarchy of Open Images (JSON).")
@parts_options
@format_choice("--gt-format", help="Format of GT; auto-detected if omitted")
@format_choice("--det-format", help="Format of DET; auto-detected if omitted")
@click.option("--gt-encoding", default="", metavar="NAME", help="Encoding of the text files of GT.")
@click.option("--det-encoding", default="", metavar="NAME", help="Encoding of the text files of DET.")
@click.option("--skip-bad", is_flag=True, help="Skip rows with errors instead of failing.")
@click.option(
    "--skip-bad-files",
    is_flag=True,
    help="Skip whole files with errors, and their images; each is named.",
)
@format_options("gt", "det")
@common_options
def command(gt: str, det: str, options: dict[str, dict[str, Any]], **given: Any) -> int:
    """Evaluate the detections DET against the ground truth GT, each in any format."""
    log = terminal_log()
    gates = [parse_gate(text) for text in given["fail_under"]]
    renames = parse_renames(lines_of_files(given["rename"]))
    rules = rules_of(given)
    check_gates(gates, rules)
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
        from odm.evaluate.output.plots import require

        require()  # before the work, not after it
    try:
        datasets = None
        if partwise:
            arguments_ = arguments(options, given, log)
            evaluation = evaluate_in_parts(*_requests(gt, det, options, given), given, log, arguments_)
        else:
            evaluation, datasets = evaluate_files(gt, det, options, given, renames, log)
        evaluation = asked.applied(evaluation, datasets and datasets[0], log)
    finally:  # before the numbers, which stay in view; what puts them in doubt is never hidden
        print_messages(log, given)
    for output in outputs.values():  # before the numbers; every input is known by now
        output.check_apart()
    failed, unknown = failures(evaluation, gates)
    try:  # before the numbers too, which are the last thing on the screen
        _write(evaluation, datasets, asked, (gt, det), options, given)
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
    options: dict[str, dict[str, Any]],
    given: dict[str, Any],
) -> None:
    """Write the files that were asked for; the report first, for it looks pictures up."""
    if given["report"] and datasets is not None:
        _report(evaluation, datasets, sources, options, given)
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
        check_rules(rules, {f"--{name.replace('_', '-')}": given.get(name) for name in OF_BOXES})
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


def _renamed(dataset: Dataset, renames: dict[str, str], log: Log) -> Dataset:
    """The detections with some classes renamed."""
    if not renames:
        return dataset
    n = np.bincount(dataset.boxes.category, minlength=len(dataset.categories)).tolist()
    for name, count in zip(dataset.categories.name, n, strict=True):
        if name in renames:
            log.note(f"--rename: {name!r} of {count} detections is read as {renames[name]!r}")
    return apply(Edits(rename=renames), dataset, Ledger("", ""))


def only_names(option: str, given: dict[str, Any]) -> Sequence[str] | None:
    """The names in ``A,B``, or the lines of the file in ``@FILE``. UsageError if there is none."""
    text = given[option]
    if text is None:
        return None
    names = lines_of_files([text]) if text.startswith("@") else split_names(text)
    if not names:
        raise UsageError(f"{option} {shorten(text)!r}: there is no name in it")
    return names


def _check_file_is_marked(text: str | None, images: Sequence[str]) -> None:
    """UsageError for ``--only-images night.txt``, which must be ``@night.txt``."""
    if text and text not in images and text.lower().endswith(".txt") and os.path.isfile(text):
        raise UsageError(f"only_images {shorten(text)}: for the names in this file give @{shorten(text)}")


def arguments(options: dict[str, dict[str, Any]], given: dict[str, Any], log: Log) -> dict[str, Any]:
    """What `evaluate` is asked for."""
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


def _requests(
    gt: str, det: str, options: dict[str, dict[str, Any]], given: dict[str, Any]
) -> tuple[Request, Request]:
    """What is to be read of both sides, and how."""
    sides: tuple[tuple[str, Kind, str], ...] = (("gt", "gt", gt), ("det", "det", det))
    truth, detections = (
        Request(
            path=path,
            format=given[f"{side}_format"],
            options=options[side],
            shared=options[""],
            kind=kind,
            flag=f"--{side}-format",
            **reading(given, side),
        )
        for side, kind, path in sides
    )
    return truth, detections


def evaluate_files(
    gt: str,
    det: str,
    options: dict[str, dict[str, Any]],
    given: dict[str, Any],
    renames: dict[str, str],
    log: Log,
    kept: KeptTruth | None = None,
) -> tuple[Evaluation, tuple[Dataset, Dataset]]:
    """Read both sides and evaluate them as the arguments say; `kept` is for several runs."""
    with names_as_flags():
        asked = arguments(options, given, log)
    truth, detections = _requests(gt, det, options, given)
    spare = ("images",) if given.get("report") else ()
    loaded = load_pair(
        truth,
        detections,
        log,
        skip_bad=given["skip_bad"],
        skip_bad_files=given["skip_bad_files"],
        spare=spare,
        kept=kept,
    )
    if not given["merge_runs"]:
        check_one_run(loaded[1].dataset)
    with names_as_flags():
        _check_file_is_marked(given["only_images"], loaded[0].dataset.images.name)
        evaluation = evaluate(loaded[0].dataset, _renamed(loaded[1].dataset, renames, log), log=log, **asked)
    return evaluation, (loaded[0].dataset, loaded[1].dataset)


def _report(
    evaluation: Evaluation,
    datasets: tuple[Dataset, Dataset],
    sources: tuple[str, str],
    options: dict[str, dict[str, Any]],
    given: dict[str, Any],
) -> None:
    from odm.report import evaluation_page

    pictures = pictures_of(evaluation.joined.images, datasets, options.values(), given)
    page = evaluation_page(
        evaluation,
        pictures,
        sources=sources,
        title=given["report_title"],
        images=given["report_images"],
        doubtful=DOUBTFUL,
    )
    write_report(page, given, sources)
