"""This machine: description, checks, GPUs and locks."""
