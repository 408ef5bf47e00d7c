"""The driver: runs the variants of one workload in the container and measures them."""
