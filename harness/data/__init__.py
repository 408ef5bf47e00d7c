"""Datasets: the published ones where they can be had, else procedural ones of the same shape."""
