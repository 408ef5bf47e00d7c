"""The engine for Docker and compatible engines: one hardened container per trial."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Self

import docker

from harness.engines import OUT_DIR, ContainerSpec, Mount
from harness.engines.container import DockerContainer
from harness.engines.container_settings import OWNER, container_options, host_options, identity_for
from harness.engines.daemon import Daemon, describe
from harness.engines.docker_calls import LOST, close_stream, engine_call, remove_container, signal_start
from harness.engines.endpoints import connect_first, endpoints
from harness.engines.mount_access import accessible
from harness.engines.owner import current_owner, parse_owner
from harness.model.platform import EngineInfo


class DockerEngine:
    """Run trials in containers; `client` also builds images."""

    def __init__(self, client: docker.DockerClient, daemon: Daemon) -> None:
        self.client = client
        self.daemon = daemon

    @classmethod
    def connect(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Connect to the first available engine; raise EngineError with the endpoints tried."""
        client = connect_first(endpoints(environment))
        with engine_call("describe itself"):
            return cls(client, describe(client))

    @property
    def info(self) -> EngineInfo:
        """Description of the engine for the manifest."""
        return self.daemon.info

    def start(self, spec: ContainerSpec) -> DockerContainer:
        """Start a trial; a failed start leaves nothing behind."""
        out = Mount(container=OUT_DIR, host=spec.out, read_only=False)
        mounts = (*spec.mounts, out, *(spec.gpu.mounts if spec.gpu else ()))
        identity = identity_for(self.daemon, os.getuid(), os.getgid())
        api = self.client.api
        # Also cleans up after Ctrl-C during the start, when nothing else refers to the container.
        with ExitStack() as cleanup:
            cleanup.enter_context(accessible(mounts, identity.host_ids))
            with engine_call(f"start trial {spec.trial_id}"):
                host = api.create_host_config(**host_options(spec, self.daemon, identity, mounts))
                options = container_options(spec, identity, current_owner(), self._image_environment(spec))
                container_id = api.create_container(host_config=host, **options)["Id"]
                cleanup.callback(remove_container, self.client, container_id)
                stdin = api.attach_socket(container_id, params={"stdin": 1, "stream": 1})
                cleanup.callback(close_stream, stdin)
                api.start(container_id)
                signal_start(stdin)
            return DockerContainer(client=self.client, container_id=container_id, cleanup=cleanup)

    def remove_stale(self) -> int:
        """Remove containers of killed harnesses; return their number."""
        current = current_owner()
        removed = 0
        with engine_call("list containers"):
            result = self.client.api.containers(all=True, filters={"label": [OWNER]})
        for entry in result:
            owner = parse_owner(entry["Labels"][OWNER])
            if owner is not None and owner.has_ended(current):
                remove_container(self.client, entry["Id"])
                removed += 1
        return removed

    def answers(self) -> bool:
        """Return whether the engine answers."""
        with suppress(*LOST):
            return bool(self.client.ping())
        return False

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def _image_environment(self, spec: ContainerSpec) -> Mapping[str, str]:
        """Return the image's environment variables if GPUs are used, which extend its library path."""
        if spec.gpu is None:
            return {}
        config = self.client.images.get(spec.image.digest or spec.image.reference).attrs["Config"] or {}
        return dict(line.split("=", 1) for line in config.get("Env") or () if "=" in line)
