"""This machine: what it is, what it can do, and who may use it at a time."""
