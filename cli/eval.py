"""``odm eval``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from odm.cli._analysis import Asked
from odm.cli._common import (
    FormatCommand,
    TargetPath,
    common_options,
    format_choice,
    format_options,
    lines_of_files,
    print_issues,
    print_log,
    reading,
    split_names,
    terminal_log,
)
from odm.cli._parts import evaluate_in_parts, in_parts, parts_options
from odm.cli._print import say, show
from odm.cli._report import pictures_of, report_options, report_target, write_report
from odm.codes import CATEGORY_POSITION_GUESSED
from odm.converters import Edits, Ledger, Request, load_pair
from odm.converters.edit import apply, parse_renames
from odm.converters.labels import read_descriptions, read_hierarchy, read_image_labels
from odm.evaluate import OUTPUTS, PROTOCOLS, Evaluation, Protocol, evaluate, render, resolve, save
from odm.evaluate.doubts import DOUBTFUL
from odm.evaluate.gates import check_gates, failures, parse_gate
from odm.evaluate.protocols import check_scores
from odm.files import Output
from odm.issues import Log, UsageError
from odm.tables import Dataset, Kind

EXAMPLES = """
\b
Examples:
  odm eval groundtruths/ detections/ --iou 0.5
  odm eval gt/ det/ --iou 0.3 --protocol voc2012 --protocol voc2007
  odm eval labels/ predictions/ --gt-format yolo --det-box ltwh --images photos/
  odm eval instances.json results.json --protocol coco --output json > metrics.json
  odm eval lvis_v1_val.json results.json --protocol lvis
  odm eval gt/ det/ --fail-under mAP=0.5 --fail-under 'AP[person]=0.4'
  odm eval gt/ det/ --save run1/ --plots run1-plots/
  odm eval instances.json results.json --images photos/ --report run.html
  odm eval gt/ det/ --rename 'motor bike=motorbike' --extra-images ignore
"""

RULES = ("interpolation", "area", "max_dets", "keep_difficult", "pixels")
DOUBTS = (*DOUBTFUL, CATEGORY_POSITION_GUESSED)
"""The warnings that put the numbers in doubt, which ``--quiet`` does not hide."""

SWITCHES = (*RULES, "score_min", "at_score", "extra_images", "class_agnostic")


@click.command(cls=FormatCommand, epilog=EXAMPLES)
@click.argument("gt", metavar="GT", type=click.Path())
@click.argument("det", metavar="DET", type=click.Path())
@click.option(
    "--iou",
    type=float,
    multiple=True,
    help="IoU threshold, above 0 up to 1; repeatable. [default: the protocol's]",
)
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    multiple=True,
    default=["voc2012"],
    show_default=True,
    help="Whose rules; repeatable, and the files are read once.",
)
@click.option(
    "--output",
    type=click.Choice(OUTPUTS),
    default="table",
    show_default=True,
    help="How results are printed.",
)
@click.option(
    "--save", "save_to", type=TargetPath(), metavar="DIR", help="Also write results.json and CSV files there."
)
@click.option(
    "--plots", type=TargetPath(), metavar="DIR", help="Also draw PNG and SVG pictures there (extra [plot])."
)
@report_options()
@click.option(
    "--overwrite", is_flag=True, help="Write into what --save, --plots and --report name, if it exists."
)
@click.option(
    "--fail-under",
    multiple=True,
    metavar="KEY=BOUND",
    help="Exit with 1 if a number is lower: mAP=0.5, AP[person]=0.4. Repeatable.",
)
@click.option(
    "--analyze",
    metavar="A,B|all",
    help="Also show tide, lrp, calibration, images, slices: what costs AP, where, and by how much.",
)
@click.option("--ci", is_flag=True, help="Also show intervals of the summary, by resampling the images.")
@click.option(
    "--replicates", type=int, default=1000, show_default=True, help="How many times --ci draws images."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Which draws of --ci.")
@click.option(
    "--tags",
    type=click.Path(),
    metavar="FILE",
    help="CSV with a column image, and one per property of images: more slices of --analyze.",
)
@click.option(
    "--thresholds",
    metavar="RULE",
    help="Choose the score of each class: f1, fbeta:B, precision:P, recall:R, cost:FP:FN or lrp.",
)
@click.option(
    "--save-thresholds", type=TargetPath(), metavar="FILE", help="Write the scores of --thresholds there."
)
@click.option(
    "--at-scores", type=click.Path(), metavar="FILE", help="Operating points: a file of --save-thresholds."
)
@click.option("--class-agnostic", is_flag=True, help="Take all boxes as of one class.")
@click.option("--at-score", type=float, help="Score of the operating point. [default: that of the best F1]")
@click.option("--score-min", type=float, help="Drop detections of a lower score.")
@click.option(
    "--max-dets", type=int, help="Look at this many detections per image and class (lvis: per image)."
)
@click.option(
    "--area", help="Only boxes of this area count: small, medium, large or LOW:HIGH in square pixels."
)
@click.option("--interpolation", type=click.Choice(["all", "11", "101"]), help="Where precision is read.")
@click.option(
    "--pixels", type=click.Choice(["edges", "inclusive"]), help="Width is right - left, or one more."
)
@click.option(
    "--keep-difficult", is_flag=True, default=None, help="Count difficult objects as ordinary ones."
)
@click.option("--only-classes", metavar="A,B", help="Evaluate these classes alone.")
@click.option(
    "--only-images", metavar="A,B|@FILE", help="Evaluate these images alone; @FILE has one name per line."
)
@click.option(
    "--extra-images",
    type=click.Choice(["error", "background", "ignore"]),
    default="error",
    show_default=True,
    help="Images that only DET has: an error, false positives, or left out.",
)
@click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    help="Rename a class of DET; repeatable, @FILE names a file of such lines.",
)
@click.option(
    "--image-labels",
    type=click.Path(),
    metavar="FILE",
    help="Open Images' verified image labels (CSV); LVIS has its own in GT.",
)
@click.option("--hierarchy", type=click.Path(), metavar="FILE", help="Open Images' class hierarchy (JSON).")
@parts_options
@format_choice("--gt-format", help="Format of GT; detected if left out")
@format_choice("--det-format", help="Format of DET; detected if left out")
@click.option("--skip-bad", is_flag=True, help="Leave out rows with errors instead of refusing the data.")
@click.option(
    "--skip-bad-files",
    is_flag=True,
    help="Leave out whole files with errors, and their images; each is named.",
)
@format_options("gt", "det")
@common_options
def command(gt: str, det: str, options: dict[str, dict[str, Any]], **given: Any) -> int:
    """Evaluate the detections DET against the ground truth GT, whatever the format of each.

    The options of the formats stand at the end; --gt-NAME and --det-NAME give one of them to one side only.
    """
    log = terminal_log()
    gates = [parse_gate(text) for text in given["fail_under"]]
    renames = parse_renames(lines_of_files(given["rename"]))
    rules = rules_of(given)
    check_gates(gates, rules)
    asked = Asked.of(given, rules)
    partwise = in_parts(given)
    outputs = {
        name: Output(given[name], overwrite=given["overwrite"], dry_run=True)
        for name in ("save_to", "plots")
        if given[name]
    }
    report_target(given, sources=(gt, det))
    if "plots" in outputs:
        from odm.evaluate.plots import require

        require()  # before the work, not after it
    try:
        datasets = None
        if partwise:
            evaluation = evaluate_in_parts(gt, det, options, given, log, arguments(options, given, log))
        else:
            evaluation, datasets = evaluate_files(gt, det, options, given, renames, log)
        evaluation = asked.applied(evaluation, log)
    finally:  # before the numbers, which stay in view; what puts them in doubt is never hidden
        first = DOUBTS if given["quiet"] or not log.errors else ()
        doubts = print_issues(log, first, limit=given["max_errors"])
        print_log(log, quiet=given["quiet"], limit=given["max_errors"], printed=doubts)
    for output in outputs.values():  # before the numbers; every input is known by now
        output.check_apart()
    show(render(evaluation, given["output"]))
    asked.show_thresholds(evaluation, overwrite=given["overwrite"])
    if given["save_to"]:
        with Output(given["save_to"], overwrite=given["overwrite"]) as output:
            save(evaluation, output.write)
    if given["plots"]:
        from odm.evaluate.plots import draw

        with Output(given["plots"], overwrite=given["overwrite"]) as output:
            draw(evaluation, output.write)
    if given["report"] and datasets is not None:
        _report(evaluation, datasets, (gt, det), options, given)
    failed, unknown = failures(evaluation, gates)
    for line in failed:
        say(f"odm: gate failed: {line}")
    for line in unknown:
        say(f"odm: error: {line}")
    return 2 if unknown else 1 if failed else 0


def rules_of(given: dict[str, Any]) -> list[Protocol]:
    """The protocols that are asked for; wrong values are said before anything is read."""
    try:
        check_scores(at_score=given["at_score"], score_min=given["score_min"])
        return resolve(
            list(dict.fromkeys(given["protocol"])),
            iou=list(dict.fromkeys(given["iou"])) or None,
            **{name: given[name] for name in RULES},
        )
    except UsageError as e:
        # A message begins with the name of what is wrong: here that is a flag.
        name, space, rest = str(e.args[0]).partition(" ")
        if name in {"iou", "at_score", *SWITCHES}:
            raise UsageError(f"--{name.replace('_', '-')}{space}{rest}") from None
        raise


def _renamed(dataset: Dataset, renames: dict[str, str], log: Log) -> Dataset:
    """The detections with some classes renamed."""
    if not renames:
        return dataset
    n = np.bincount(dataset.boxes.category, minlength=len(dataset.categories)).tolist()
    for name, count in zip(dataset.categories.name, n, strict=True):
        if name in renames:
            log.note(f"--rename: {name!r} of {count} detections is taken as {renames[name]!r}")
    return apply(Edits(rename=renames), dataset, Ledger("", ""))


def names_of_images(text: str | None) -> Sequence[str] | None:
    """The names in ``A,B``, or the lines of the file in ``@FILE``."""
    if text is None:
        return None
    return lines_of_files([text]) if text.startswith("@") else split_names(text)


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
        "only_classes": split_names(given["only_classes"]) if given["only_classes"] is not None else None,
        "only_images": names_of_images(given["only_images"]),
        "image_labels": image_labels,
        "hierarchy": hierarchy,
        **{name: given[name] for name in SWITCHES},
    }


def evaluate_files(
    gt: str,
    det: str,
    options: dict[str, dict[str, Any]],
    given: dict[str, Any],
    renames: dict[str, str],
    log: Log,
) -> tuple[Evaluation, tuple[Dataset, Dataset]]:
    """Read both sides and evaluate them as the arguments say."""
    sides: tuple[tuple[str, Kind, str], ...] = (("gt", "gt", gt), ("det", "det", det))
    truth, detections = (
        Request(
            path=path,
            format=given[f"{side}_format"],
            options=options[side],
            shared=options[""],
            kind=kind,
            flag=f"--{side}-format",
            **reading(given),
        )
        for side, kind, path in sides
    )
    spare = ("images",) if given.get("report") else ()
    loaded = load_pair(
        truth,
        detections,
        log,
        skip_bad=given["skip_bad"],
        skip_bad_files=given["skip_bad_files"],
        spare=spare,
    )
    evaluation = evaluate(
        loaded[0].dataset,
        _renamed(loaded[1].dataset, renames, log),
        log=log,
        **arguments(options, given, log),
    )
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
        doubtful=DOUBTS,
    )
    write_report(page, given, sources)
