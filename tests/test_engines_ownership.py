"""What a container's user may read of the host, and how a refusal is worded."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines import FILE_DIR, Mount
from harness.engines.ownership import check_readable
from harness.errors import EngineError


@pytest.mark.parametrize(
    ("place", "printed"), [(FILE_DIR, "folder of its own"), ("/tfbench/data", "chmod -R o+rX")]
)
def test_what_the_container_cannot_read_is_named_and_no_home_is_opened(
    tmp_path: Path, place: str, printed: str
) -> None:
    """A workload file may lie in a home, beside keys."""
    (tmp_path / "mine.py").write_text("pass")
    (tmp_path / "key").write_text("secret")
    (tmp_path / "key").chmod(0o600)
    tmp_path.chmod(0o755)
    with pytest.raises(EngineError) as error:
        check_readable([Mount(container=place, host=tmp_path)])
    assert "key cannot be read" in error.value.message
    assert printed in error.value.hint
    assert ("chmod" in error.value.hint) == (place != FILE_DIR)
