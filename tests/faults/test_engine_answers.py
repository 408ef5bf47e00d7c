"""An engine that stops answering, or drips its answers, is given up within one deadline."""

import signal
import time
from pathlib import Path

import pytest

from harness.engines.docker import DockerEngine
from harness.engines.docker_calls import remove_container
from harness.engines.endpoints import CONNECT_S
from harness.errors import EngineError
from tests.docker.conftest import make_spec
from tests.docker.unix_proxy import engine_proxy
from tests.test_engines_container_init import wait_until_ended

pytestmark = pytest.mark.docker
__all__ = ["make_spec"]
# A request of 20 s, then short ones.
LIMIT_S = 40.0


@pytest.mark.parametrize("fault", ["stopped", "dripping"])
def test_requests_to_a_silent_engine_share_a_deadline(make_spec, fault):
    with engine_proxy() as (url, proxy):
        engine = DockerEngine.connect({"DOCKER_HOST": url})
        container = engine.start(make_spec("sleep", "1000"))
        if fault == "stopped":
            proxy.send_signal(signal.SIGSTOP)
        else:
            Path(f"{url.removeprefix('unix://')}.drip").touch()
        begun = time.monotonic()
        for call in (container.kill, container.log, container.kill, container.remove):
            with pytest.raises(EngineError):
                call()
        assert not engine.answers()
        assert time.monotonic() - begun < LIMIT_S
        wait_until_ended(container.pid)
        proxy.send_signal(signal.SIGCONT)
    engine = DockerEngine.connect()
    remove_container(engine.client, container.id)
    engine.close()


def test_connecting_to_a_dripping_engine_ends():
    with engine_proxy() as (url, _):
        Path(f"{url.removeprefix('unix://')}.drip").touch()
        begun = time.monotonic()
        with pytest.raises(EngineError, match=f"no answer within {CONNECT_S} s"):
            DockerEngine.connect({"DOCKER_HOST": url})
        assert time.monotonic() - begun < 2 * CONNECT_S
