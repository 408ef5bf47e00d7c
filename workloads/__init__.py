"""Workloads: what runs inside the container. Never imports the harness."""
