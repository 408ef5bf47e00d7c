"""Docker and compatible engines: one hardened container per trial."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Self

import docker

from harness.engines import OUT_DIR, ContainerSpec, Mount
from harness.engines.calls import engine_call, hang_up, remove_container, say_started
from harness.engines.container import DockerContainer
from harness.engines.container_settings import OWNER, container_options, host_options, identity_for
from harness.engines.daemon import Daemon, describe
from harness.engines.endpoints import connect_first, endpoints
from harness.engines.owner import current_owner, owner_from
from harness.engines.ownership import accessible
from harness.model.platform import EngineInfo


class DockerEngine:
    """Run trials in containers; `client` also builds images."""

    def __init__(self, client: docker.DockerClient, daemon: Daemon) -> None:
        self.client = client
        self.daemon = daemon

    @classmethod
    def connect(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """Reach the first engine that answers, or raise EngineError with the endpoints that were tried."""
        client = connect_first(endpoints(environment))
        with engine_call("describe itself"):
            return cls(client, describe(client))

    @property
    def info(self) -> EngineInfo:
        """The engine as the manifest describes it."""
        return self.daemon.info

    def start(self, spec: ContainerSpec) -> DockerContainer:
        """Start a trial; a failed start leaves nothing behind."""
        out = Mount(container=OUT_DIR, host=spec.out, read_only=False)
        mounts = (*spec.mounts, out, *(spec.gpu.mounts if spec.gpu else ()))
        identity = identity_for(self.daemon, os.getuid(), os.getgid())
        api = self.client.api
        # Ctrl-C undoes a start too: nobody else knows of the container yet.
        with ExitStack() as undo:
            undo.enter_context(accessible(mounts, identity.host_ids))
            with engine_call(f"start trial {spec.trial_id}"):
                host = api.create_host_config(**host_options(spec, self.daemon, identity, mounts))
                options = container_options(spec, identity, current_owner(), self._image_environment(spec))
                made = api.create_container(host_config=host, **options)["Id"]
                undo.callback(remove_container, self.client, made)
                lease = api.attach_socket(made, params={"stdin": 1, "stream": 1})
                undo.callback(hang_up, lease)
                api.start(made)
                say_started(lease)
            return DockerContainer(client=self.client, identity=made, undo=undo)

    def remove_stale(self) -> int:
        """Remove containers of killed harnesses; return how many."""
        here = current_owner()
        removed = 0
        with engine_call("list containers"):
            result = self.client.api.containers(all=True, filters={"label": [OWNER]})
        for entry in result:
            owner = owner_from(entry["Labels"][OWNER])
            if owner is not None and owner.gone_for(here):
                remove_container(self.client, entry["Id"])
                removed += 1
        return removed

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def _image_environment(self, spec: ContainerSpec) -> Mapping[str, str]:
        """Return the image's environment, whose library path is extended for GPUs."""
        if spec.gpu is None:
            return {}
        config = self.client.images.get(spec.image.digest or spec.image.reference).attrs["Config"] or {}
        return dict(line.split("=", 1) for line in config.get("Env") or () if "=" in line)
