"""Docker and engines that speak its interface: one hardened container a trial."""

from __future__ import annotations

import os
from collections.abc import Mapping

import docker
from docker.errors import NotFound

from harness.engines import OUT_DIR, ContainerSpec, Mount
from harness.engines.calls import engine_call, hang_up, remove_container
from harness.engines.container import DockerContainer
from harness.engines.daemon import PODMAN, Daemon, describe
from harness.engines.owner import RUN, TRIAL, current_owner, owner_from
from harness.engines.ownership import Lent, check_readable
from harness.engines.places import PODMAN_HINT, dial, places, podman_places
from harness.engines.recipe import container_options, host_options, identity_for
from harness.engines.staging import StagedOut, Stager, remove_volume
from harness.errors import EngineError
from harness.model.run import EngineInfo


class DockerEngine:
    """Run trials in containers of the first engine that answers.

    Args:
        environment: where DOCKER_HOST, DOCKER_CONTEXT and the like are read from; None for this process' own.
        podman: take Podman and nothing else.
        remote: whether the engine is on another machine; None to find out.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        podman: bool = False,
        remote: bool | None = None,
    ) -> None:
        self._environment = environment
        self._podman = podman
        self._remote = remote
        self._client: docker.DockerClient | None = None
        self._daemon: Daemon | None = None
        self._stager: Stager | None = None
        self._image_environments: dict[str, Mapping[str, str]] = {}
        # Containers whose end this engine has not seen: removed by remove_stale and close at the latest.
        self._open: set[str] = set()

    @property
    def client(self) -> docker.DockerClient:
        """The connection, for building images."""
        if self._client is None:
            raise EngineError("The engine has not been reached yet.", hint="Call connect first.")
        return self._client

    @property
    def daemon(self) -> Daemon:
        """What the engine says of itself."""
        if self._daemon is None:
            raise EngineError("The engine has not been reached yet.", hint="Call connect first.")
        return self._daemon

    def connect(self) -> EngineInfo:
        """Reach the engine.

        Raises:
            EngineError: nothing answers; the message says where it was looked for. Or it is not Podman.
        """
        environment = os.environ if self._environment is None else self._environment
        if self._podman:
            self._client, place = dial(podman_places(environment), PODMAN_HINT)
        else:
            self._client, place = dial(places(environment))
        with engine_call("describe itself"):
            daemon = describe(self._client, place.url, self._remote)
        if self._podman and daemon.name != PODMAN:
            self.close()
            raise EngineError(
                f"{place.why} at {place.url} is {daemon.name} {daemon.version}, and Podman was asked for.",
                hint=f"Choose --engine docker for it, or have {place.why} name Podman's socket.",
            )
        self._daemon = daemon
        return daemon.info()

    def start(self, spec: ContainerSpec) -> DockerContainer:
        """Start a trial.

        Raises:
            EngineError: the engine refuses or is gone.
        """
        out = Mount(container=OUT_DIR, host=spec.out, read_only=False)
        mounts, staged = self._placed(spec, (*spec.mounts, out))
        # The driver's folders are the engine's machine's own already: they are never staged.
        mounts += spec.gpu.mounts if spec.gpu else ()
        identity = identity_for(self.daemon, os.getuid(), os.getgid())
        writable = [mount.host for mount in mounts if mount.host is not None and not mount.read_only]
        lent = Lent(writable, identity.host_ids)
        if identity.host_ids is not None:
            check_readable(mounts)
        api = self.client.api
        lease = None
        made = ""
        try:
            lent.lend()
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
                lent=lent,
                staged=staged,
                removed=self._open.discard,
            )
            container.watch()
        except BaseException:
            # Ctrl-C in the middle of a start included: nobody else knows of the container yet.
            self._give_up(made, lease, lent, staged)
            raise
        return container

    def remove_stale(self) -> int:
        """Remove containers and volumes whose harness is gone; return how many.

        Raises:
            EngineError: the engine is gone.
        """
        here = current_owner()
        removed = self._remove_open()
        with engine_call("list containers"):
            found = self.client.api.containers(all=True, filters={"label": [RUN]})
            volumes = self.client.api.volumes(filters={"label": [RUN]})["Volumes"] or []
        for entry in found:
            owner = owner_from(entry["Labels"])
            if owner is not None and owner.gone_for(here):
                remove_container(self.client, entry["Id"])
                removed += 1
        for entry in volumes:
            owner = owner_from(entry["Labels"])
            if owner is not None and owner.gone_for(here):
                remove_volume(self.client, entry["Name"])
                removed += 1
        return removed

    def close(self) -> None:
        """Remove what a lost connection may have left, and let go of the engine."""
        if self._client is None:
            return
        try:
            self._remove_open()
            if self._stager is not None:
                self._stager.remove_all()
        except EngineError:
            # It is gone, and the containers with it; what is not, the next harness removes.
            pass
        finally:
            self._client.close()
            self._client = None

    def _placed(
        self, spec: ContainerSpec, mounts: tuple[Mount, ...]
    ) -> tuple[tuple[Mount, ...], StagedOut | None]:
        """Return the mounts as the engine can reach them."""
        if not self.daemon.remote:
            return mounts, None
        if self._stager is None:
            labels = {**current_owner().labels(), RUN: spec.run_id, TRIAL: ""}
            self._stager = Stager(self.client, labels)
        image = spec.image.digest or spec.image.reference
        placed: list[Mount] = []
        own: list[str] = []
        for mount in mounts:
            if mount.volume and mount.host is not None:
                placed.append(self._stager.kept(mount, image))
            elif mount.read_only:
                placed.append(self._stager.read_only(mount, image))
            else:
                placed.append(self._stager.writable(mount, image))
                own += [placed[-1].volume] if mount.host is not None else []
        return tuple(placed), StagedOut(tuple(own), spec.out)

    def _image_environment(self, spec: ContainerSpec) -> Mapping[str, str]:
        if spec.gpu is None:
            return {}
        name = spec.image.digest or spec.image.reference
        if name not in self._image_environments:
            config = self.client.images.get(name).attrs["Config"] or {}
            pairs = (line.partition("=") for line in config.get("Env") or ())
            self._image_environments[name] = {key: value for key, _, value in pairs}
        return self._image_environments[name]

    def _give_up(self, made: str, lease: object, lent: Lent, staged: StagedOut | None) -> None:
        try:
            if made:
                remove_container(self.client, made)
                self._open.discard(made)
            if staged is not None:
                staged.remove(self.client)
        except EngineError:
            pass
        finally:
            if lease is not None:
                hang_up(lease)
            lent.take_back()

    def _remove_open(self) -> int:
        removed = 0
        for identity in sorted(self._open):
            try:
                with engine_call("say whether a container is left"):
                    self.client.api.inspect_container(identity)
                remove_container(self.client, identity)
                removed += 1
            except EngineError as error:
                if not isinstance(error.__cause__, NotFound):
                    raise
            self._open.discard(identity)
        return removed
