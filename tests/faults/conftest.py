"""The containers that killed runs leave behind are looked for by the fixtures of the container tests."""

from tests.docker.conftest import base_image, engine

__all__ = ["base_image", "engine"]
