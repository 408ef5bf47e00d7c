"""Errors that users are shown."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.errors import TfbenchError


@contextmanager
def user_error(kind: type[TfbenchError], match: str = "", *, hint: str = "") -> Iterator[None]:
    """Require an error whose text has a pattern, and whose hint contains `hint` and is not empty."""
    with pytest.raises(kind, match=match or None) as caught:
        yield
    assert caught.value.hint and hint in caught.value.hint
