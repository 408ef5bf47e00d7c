"""Datasets: published ones where available, else procedural ones of the same shape."""
