"""How much of the product one box passes through stays legible."""

from pathlib import Path

import pytest
from way import LEVELS, SOURCES, iou_to_matching, yolo_to_coco

import odm

pytestmark = pytest.mark.skipif(
    not Path(odm.__file__).resolve().is_relative_to(SOURCES), reason="only in a checkout"
)


def test_a_box_passes_through_few_files_and_functions(tmp_path: Path) -> None:
    way = yolo_to_coco(tmp_path)
    assert len({file for file, _, _ in way}) <= 42
    assert len(way) <= 290


def level_of(file: str) -> int:
    return next(i for i, part in enumerate(LEVELS) if file.startswith(part))


def test_an_option_goes_from_the_command_to_the_matching_and_never_back_up(tmp_path: Path) -> None:
    steps = iou_to_matching(tmp_path)
    assert [step for step in steps if level_of(step[1]) < level_of(step[0])] == []
    files = [file for _, file, _ in steps]
    assert files[0].startswith("cli/")
    assert any(file.startswith("evaluate/matching/") for file in files)
    resolved = [step for step in steps if step[2] == "_split_ious"]
    assert len(resolved) == 1, "the protocols are resolved once, where the options are checked"
