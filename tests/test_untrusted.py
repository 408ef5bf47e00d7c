"""What containers wrote may be nested deeper than paths and recursion go."""

import os
from pathlib import Path

import pytest

from harness.engines import OUT_DIR, Mount
from harness.engines.container_settings import accessible, check_readable
from harness.untrusted import remove_tree


def nest(folder: Path, depth: int, name: str = "d" * 100) -> None:
    """Nest folders deeper than a path can name."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=handle)
        inner = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=handle))
    os.close(handle)


def test_tree_of_any_depth_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept/file"
    kept.parent.mkdir()
    kept.touch()
    folder = tmp_path / "out"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        nest(folder / name, 3_000)
        (folder / name / "link").symlink_to(kept.parent)
    (folder / os.fsdecode(b"\xff")).mkdir(mode=0o000)
    remove_tree(folder)
    remove_tree(folder)
    assert sorted(tmp_path.iterdir()) == [kept.parent]
    assert kept.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root changes owners")
def test_owner_of_deeply_nested_folders_is_changed_and_restored(tmp_path: Path) -> None:
    nest(tmp_path, 3_000, "d")
    own, mount = tmp_path.stat().st_uid, Mount(container=OUT_DIR, host=tmp_path, read_only=False)
    with accessible([mount], (10001, 10001)):
        assert (tmp_path / "d/d").stat().st_uid == 10001
    assert (tmp_path / "d/d").stat().st_uid == own
    remove_tree(tmp_path)


def test_dangling_link_beside_a_mounted_file_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".#train.py").symlink_to("user@host.1234:1")
    tmp_path.chmod(0o755)
    check_readable([Mount(container="/tfbench/file", host=tmp_path)])
