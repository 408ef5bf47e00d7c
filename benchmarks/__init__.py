"""Benchmarks of the harness itself. They print ratios and assert no times."""
