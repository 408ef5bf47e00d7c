"""Frozen values that the parts of the harness exchange. No I/O."""
