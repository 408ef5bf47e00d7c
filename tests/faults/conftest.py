"""Fixtures from the container tests."""

from tests.docker.conftest import base_image, engine

__all__ = ["base_image", "engine"]
