"""An engine that stops answering is given up within one deadline."""

import signal
import time

import pytest

from harness.engines import docker, docker_client
from harness.engines.docker import DockerEngine
from harness.engines.docker_client import remove_container
from harness.errors import EngineError
from tests.docker.conftest import make_spec
from tests.docker.unix_proxy import engine_proxy
from tests.test_engines_local import wait_until_ended

pytestmark = pytest.mark.docker
__all__ = ["make_spec"]
REQUEST_S = 3


def test_requests_to_a_silent_engine_share_a_deadline(make_spec, monkeypatch):
    monkeypatch.setattr(docker, "_REQUEST_S", REQUEST_S)
    monkeypatch.setattr(docker_client, "_SILENT_S", 0.5)
    with engine_proxy() as (url, proxy):
        engine = DockerEngine.connect({"DOCKER_HOST": url})
        container = engine.start(make_spec("sleep", "1000"))
        proxy.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        for call in (container.kill, container.log, container.kill, container.remove):
            with pytest.raises(EngineError):
                call()
        assert not engine.answers()
        # The others wait half a second each.
        assert time.monotonic() - begun < REQUEST_S + 4
        wait_until_ended(container.pid)
        proxy.send_signal(signal.SIGCONT)
    engine = DockerEngine.connect()
    remove_container(engine.client, container.id)
    engine.close()
