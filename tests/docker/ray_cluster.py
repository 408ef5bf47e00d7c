"""A real Ray cluster of several nodes on this machine; each is a raylet with its own environment."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# Detect dead nodes within a few seconds; Ray's default is about half a minute.
HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}
STORE_BYTES = 80 * 2**20


class Nodes:
    def __init__(self, cluster: Any, nodes: Mapping[str, Any]) -> None:
        self.address: str = cluster.address
        self._cluster = cluster
        self._nodes = nodes
        self.alive = set(nodes)

    def kill(self, name: str) -> None:
        """Kill a node's processes, as in a power failure."""
        self._cluster.remove_node(self._nodes[name], allow_graceful=False)
        self.alive.discard(name)


@contextmanager
def cluster(names: Mapping[str, Mapping[str, str]], cpus: int = 2) -> Iterator[Nodes]:
    """Start a head without CPUs and one node per name, with additional environment variables."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - takes a second, needed only by these tests

    # Tests must not use the network.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    shared = {"object_store_memory": STORE_BYTES}
    ray_cluster = Cluster(
        initialize_head=True,
        head_node_args={**shared, "num_cpus": 0, "include_dashboard": False, "_system_config": HEALTH_CHECKS},
    )
    try:
        nodes = {
            name: ray_cluster.add_node(
                wait=False, num_cpus=cpus, node_name=name, labels={"pool": name}, env_vars=dict(environment),
                **shared,
            )
            for name, environment in names.items()
        }  # fmt: skip
        ray_cluster.wait_for_nodes(timeout=120)
        yield Nodes(ray_cluster, nodes)
    finally:
        ray_cluster.shutdown()
