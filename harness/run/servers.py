"""Containers that serve the trials of one workload and device one after another, and wait in between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from harness.engines import Container, ContainerSpec, Engine
from harness.errors import INTERRUPTS, EngineError
from harness.model.run import PlannedTrial
from harness.progress import Progress
from harness.run.store import RunFolder, session_of
from workloads.protocol import began_line

# Of most memory is the import of the framework, half a gigabyte.
MOST_WAITING = 8


@dataclass(slots=True)
class Servers:
    """The containers of a run, the one that waits longest first."""

    engine: Engine
    folder: RunFolder
    progress: Progress
    _containers: dict[str, Container] = field(default_factory=dict)

    def clear(self, planned: PlannedTrial) -> None:
        """Leave of a trial's session a container that waits, or nothing; call before the trial's folder is made.

        A new container would begin the trial that one of a killed harness was told last.
        """
        session = session_of(planned.id)
        container = self._containers.get(session)
        if container is None:
            self.folder.settle(session)
        elif not _runs(container):
            self.close(session)

    def start(self, planned: PlannedTrial, spec: ContainerSpec) -> Container:
        """Return the container that serves this trial, started if needed.

        Raises:
            EngineError: it could not be started.
        """
        session = session_of(planned.id)
        container = self._containers.pop(session, None)
        if container is None:
            while len(self._containers) >= MOST_WAITING:
                self.close(next(iter(self._containers)))
            container = self.engine.start(replace(spec, out=self.folder.session(planned.id)))
        self._containers[session] = container
        return container

    def log(self, planned: PlannedTrial) -> str:
        """Return the end of what a trial has printed; "" if the engine does not say."""
        container = self._containers.get(session_of(planned.id))
        if container is None:
            return ""
        with suppress(EngineError):
            return container.log().rpartition(began_line(planned.id))[2]
        return ""

    def close(self, session: str) -> None:
        """End the container of a session, if there is one."""
        container = self._containers.get(session)
        if container is not None:
            with _interrupted_later():
                self._remove(session, container)
                del self._containers[session]

    def close_all(self) -> None:
        """End all containers."""
        with _interrupted_later():
            for session in list(self._containers):
                self.close(session)

    def _remove(self, session: str, container: Container) -> None:
        """Kill and remove a container; an error of the engine is said, and loses nothing."""
        with suppress(EngineError):
            container.kill()
        try:
            container.remove()
        except EngineError as error:
            self.progress.line(f"A container is left, which the next run removes: {error.message}")
        self.folder.settle(session)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Hold an interrupt back until the block has ended; only the main thread is interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _frame: held.append(number)) for number in INTERRUPTS
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


def _runs(container: Container) -> bool:
    with suppress(EngineError):
        return container.poll() is None
    return False
