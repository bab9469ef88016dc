"""How much of the product one box passes through stays legible."""

from pathlib import Path

from way import yolo_to_coco


def test_a_box_passes_through_few_files_and_functions(tmp_path: Path) -> None:
    way = yolo_to_coco(tmp_path)
    assert len({file for file, _, _ in way}) <= 39
    assert len(way) <= 262
