"""Polygons, masks, oriented boxes and keypoints as readers collect them, groups of shapes, and fractions."""
