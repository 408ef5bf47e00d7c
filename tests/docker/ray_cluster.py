"""A real Ray cluster of several nodes on this machine, each a raylet with an environment of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# A node that dies must be noticed within a test's patience; Ray's own default is about half a minute.
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}
STORE_BYTES = 80 * 2**20


class Nodes:
    """The cluster: its address, and its nodes by name."""

    def __init__(self, cluster: Any, nodes: Mapping[str, Any]) -> None:
        self.address: str = cluster.address
        self._cluster = cluster
        self._nodes = nodes
        self.alive = set(nodes)

    def kill(self, name: str) -> None:
        """Kill a node's processes, as when its power fails."""
        self._cluster.remove_node(self._nodes[name], allow_graceful=False)
        self.alive.discard(name)


@contextmanager
def cluster(names: Mapping[str, Mapping[str, str]], cpus: int = 2) -> Iterator[Nodes]:
    """Start a head that offers no CPUs and a node for each name, with additions to its environment."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - takes a second, which only these tests need

    # Nothing of a test goes over the network, and a proxy must not try to.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    shared = {"object_store_memory": STORE_BYTES}
    made = Cluster(
        initialize_head=True,
        head_node_args={**shared, "num_cpus": 0, "include_dashboard": False, "_system_config": QUICK},
    )
    try:
        nodes = {
            name: made.add_node(
                wait=False, num_cpus=cpus, node_name=name, labels={"pool": name}, env_vars=dict(environment),
                **shared,
            )
            for name, environment in names.items()
        }  # fmt: skip
        made.wait_for_nodes(timeout=120)
        yield Nodes(made, nodes)
    finally:
        made.shutdown()
