"""What measuring costs: benchmarks of the harness itself. Each prints ratios, none asserts a time."""
