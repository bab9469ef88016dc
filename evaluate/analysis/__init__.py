"""Analyses of match tables: comparing runs, kinds of errors, images, slices, thresholds, agreement.

`table.table_of` (of a result) or `table.tabulate` (of both sides and their matches) makes the table that the
others read:

- `compare.compare`: runs against the first of them, with paired intervals; `bootstrap.intervals` for one run
- `tide.tide`, `thresholds.lrp`: what costs AP, the least LRP error
- `images.image_table`, `review.missed`, `review.suspects`: where the errors are
- `slices.image_slices`, `slices.box_slices`, `slices.truth_slices`: parts of the data
- `thresholds.choose_thresholds`: which detections to keep
- `agree.agree`: two annotators
- `analyses.analyze`: the analyses of ``odm eval --analyze``, added to an evaluation; `analyses.calibration`:
  whether scores are probabilities

They take tables and give plain data; nothing here reads or writes files.
"""
