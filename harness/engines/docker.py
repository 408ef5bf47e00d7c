"""Docker and engines that speak its interface: one hardened container a trial."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import docker
from docker.errors import NotFound

from harness.engines import OUT_DIR, ContainerSpec, Mount
from harness.engines.calls import engine_call, hang_up, remove_container
from harness.engines.container import DockerContainer
from harness.engines.daemon import PODMAN, Daemon, describe
from harness.engines.endpoints import PODMAN_HINT, connect_first, endpoints, podman_endpoints
from harness.engines.owner import RUN, current_owner, owner_from
from harness.engines.ownership import TemporaryOwnership, check_readable
from harness.engines.recipe import container_options, host_options, identity_for
from harness.errors import EngineError
from harness.model.run import EngineInfo


class DockerEngine:
    """Run trials in containers of the first engine that answers.

    Args:
        environment: where DOCKER_HOST, DOCKER_CONTEXT and the like are read from; None for this process' own.
        podman: take Podman and nothing else.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, *, podman: bool = False) -> None:
        self._environment = environment
        self._podman = podman
        self._client: docker.DockerClient | None = None
        self._daemon: Daemon | None = None
        self._image_environments: dict[str, Mapping[str, str]] = {}
        # Containers whose end this engine has not seen: removed by remove_stale and close at the latest.
        self._open: set[str] = set()

    @property
    def client(self) -> docker.DockerClient:
        """The connection, for building images."""
        if self._client is None:
            raise EngineError("Not connected to the engine.", hint="Call connect first.")
        return self._client

    @property
    def daemon(self) -> Daemon:
        """What the engine says of itself."""
        if self._daemon is None:
            raise EngineError("Not connected to the engine.", hint="Call connect first.")
        return self._daemon

    def connect(self) -> EngineInfo:
        """Reach the engine.

        Raises:
            EngineError: nothing answers; the message says where it was looked for. Or it is not Podman.
        """
        environment = os.environ if self._environment is None else self._environment
        if self._podman:
            self._client, endpoint = connect_first(podman_endpoints(environment), PODMAN_HINT)
        else:
            self._client, endpoint = connect_first(endpoints(environment))
        with engine_call("describe itself"):
            daemon = describe(self._client, Path(endpoint.url.removeprefix("unix://")))
        if self._podman and daemon.name != PODMAN:
            self.close()
            raise EngineError(
                f"{endpoint.why} at {endpoint.url} is {daemon.name} {daemon.version}, not the requested Podman.",
                hint=f"Use --engine docker, or point {endpoint.why} at Podman's socket.",
            )
        self._daemon = daemon
        return daemon.info()

    def start(self, spec: ContainerSpec) -> DockerContainer:
        """Start a trial.

        Raises:
            EngineError: the engine refuses or is gone.
        """
        out = Mount(container=OUT_DIR, host=spec.out, read_only=False)
        mounts = (*spec.mounts, out, *(spec.gpu.mounts if spec.gpu else ()))
        identity = identity_for(self.daemon, os.getuid(), os.getgid())
        writable = [mount.host for mount in mounts if not mount.read_only]
        ownership = TemporaryOwnership(writable, identity.host_ids)
        if identity.host_ids is not None:
            check_readable(mounts)
        api = self.client.api
        lease = None
        made = ""
        try:
            ownership.hand_over()
            with engine_call(f"start trial {spec.trial_id}"):
                host = api.create_host_config(**host_options(spec, self.daemon, identity, mounts))
                options = container_options(spec, identity, current_owner(), self._image_environment(spec))
                made = api.create_container(host_config=host, **options)["Id"]
                self._open.add(made)
                lease = api.attach_socket(made, params={"stdin": 1, "stream": 1})
                api.start(made)
            container = DockerContainer(
                client=self.client,
                identity=made,
                lease=lease,
                ownership=ownership,
                removed=self._open.discard,
            )
            container.watch()
        except BaseException:
            # Ctrl-C in the middle of a start included: nobody else knows of the container yet.
            self._give_up(made, lease, ownership)
            raise
        return container

    def remove_stale(self) -> int:
        """Remove containers whose harness is gone; return how many.

        Raises:
            EngineError: the engine is gone.
        """
        here = current_owner()
        removed = self._remove_open()
        with engine_call("list containers"):
            result = self.client.api.containers(all=True, filters={"label": [RUN]})
        for entry in result:
            owner = owner_from(entry["Labels"])
            if owner is not None and owner.gone_for(here):
                remove_container(self.client, entry["Id"])
                removed += 1
        return removed

    def close(self) -> None:
        """Remove what a lost connection may have left, and let go of the engine."""
        if self._client is None:
            return
        try:
            self._remove_open()
        except EngineError:
            # It is gone, and the containers with it; what is not, the next harness removes.
            pass
        finally:
            self._client.close()
            self._client = None

    def _image_environment(self, spec: ContainerSpec) -> Mapping[str, str]:
        if spec.gpu is None:
            return {}
        name = spec.image.digest or spec.image.reference
        if name not in self._image_environments:
            config = self.client.images.get(name).attrs["Config"] or {}
            pairs = (line.partition("=") for line in config.get("Env") or ())
            self._image_environments[name] = {key: value for key, _, value in pairs}
        return self._image_environments[name]

    def _give_up(self, made: str, lease: object, ownership: TemporaryOwnership) -> None:
        try:
            if made:
                remove_container(self.client, made)
                self._open.discard(made)
        except EngineError:
            pass
        finally:
            if lease is not None:
                hang_up(lease)
            ownership.take_back()

    def _remove_open(self) -> int:
        removed = 0
        for identity in sorted(self._open):
            try:
                with engine_call("check for a leftover container"):
                    self.client.api.inspect_container(identity)
                remove_container(self.client, identity)
                removed += 1
            except EngineError as error:
                if not isinstance(error.__cause__, NotFound):
                    raise
            self._open.discard(identity)
        return removed
