"""Polygons, masks, oriented boxes and keypoints as readers collect them, and groups of shapes."""
