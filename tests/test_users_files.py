"""Whatever a script does, the files of its user stay as they are: bytes, modes, times and links, with each engine."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness.defaults import COPIED_BYTES
from harness.engines import FILE_DIR, OUT_DIR, WORKLOADS_DIR, Engine, Mount
from harness.engines.container_settings import with_inner
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.errors import UsageError
from harness.images.builder import ImageBuilder
from harness.model.platform import ImageInfo
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.trial_container import linked
from harness.system.doctor_checks import run_to_end
from tests.builders import container_spec, image
from tests.conftest import ROOT
from tests.folders import write_files
from workloads.protocol import OPENED

SOURCE = (ROOT / "harness/engines/read_only.py").read_text(encoding="utf-8")
LARGE = 40 << 20  # more than is copied

# Writes in all ways to what is beside it and below the folders in its arguments, and goes on after each failure.
ATTACK = """
import ctypes, mmap, os, pathlib, shutil, sqlite3, subprocess, sys
done = 0
def attempt(action, *arguments):
    global done
    try:
        action(*arguments)
        done += 1
    except Exception as error:
        pass
def opened(path, flags):
    number = os.open(path, flags)
    os.write(number, b"!")
    os.close(number)
def python(path, mode):
    with open(path, mode) as file:
        file.write(b"!" if "b" in mode else "!")
def mapped(path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[0:1] = b"!"
def shared(path):  # in C, without Python's open
    libc = ctypes.CDLL(None)
    number = libc.open(os.fsencode(path), os.O_RDWR)
    assert number >= 0 and libc.pwrite(number, b"!", 1, 0) == 1
def database(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (x)")
def shell(text, path):
    subprocess.run(["sh", "-c", text, "sh", path], check=True, stderr=subprocess.DEVNULL)
def forked(path):
    pid = os.fork()
    if pid == 0:
        attempt(shared, path)
        os._exit(0)
    os.waitpid(pid, 0)
def saved(path):
    try:
        import h5py
    except ImportError:
        return
    with h5py.File(path, "w") as file:
        file["x"] = 1
def tensors(path):
    if "tensorflow" not in sys.modules:
        return
    tf = sys.modules["tensorflow"]
    attempt(tf.io.write_file, path, b"!")
    def gfile(mode):
        with tf.io.gfile.GFile(path, mode) as file:
            file.write("!")
    attempt(gfile, "w")
    attempt(gfile, "a")
    def records():
        with tf.io.TFRecordWriter(path) as writer:
            writer.write(b"!")
    attempt(records)
    attempt(tf.train.Checkpoint(x=tf.Variable(1.0)).write, path)
    attempt(tf.io.gfile.copy, __file__, path, True)
    attempt(tf.io.gfile.rename, path, path + "2", True)
    attempt(tf.io.gfile.remove, path)
def each(path):
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT):
        attempt(opened, path, flags)
        attempt(opened, os.fsencode(path), flags)
    for mode in ("a", "r+b", "w", "wb", "w+"):
        attempt(python, path, mode)
    attempt(pathlib.Path(path).write_text, "!")
    attempt(mapped, path)
    attempt(shared, path)
    attempt(forked, path)
    for pid in outside:
        attempt(shared, f"/proc/{pid}/root{os.path.realpath(path)}")
    attempt(os.truncate, path, 1)
    attempt(database, path)
    attempt(saved, path)
    attempt(tensors, path)
    if "part-" in path or "/workloads/" in path:  # many, and alike
        return
    for text in ('echo "!" > "$1"', 'echo "!" >> "$1"', 'dd if=/dev/zero of="$1" bs=1 count=1 conv=notrunc',
                 'cp /etc/hostname "$1"', 'truncate -s 3 "$1"', 'touch "$1"', 'chmod 777 "$1"', 'ln "$1" "$1.hard"',
                 'sed -i s/o/0/ "$1"', 'python3 -c "import sys; open(sys.argv[1], chr(119))" "$1"'):
        attempt(shell, text, path)
    attempt(os.chmod, path, 0o777)
    attempt(os.utime, path, (1, 1))
    attempt(os.link, path, path + ".link")
    attempt(os.chown, path, 1, 1)
    attempt(os.setxattr, path, "user.x", b"!")
    attempt(os.rename, path, path + ".moved")
    attempt(shutil.move, path + ".moved", path)
    attempt(os.replace, __file__ + ".none", path)
    attempt(os.unlink, path)
def folder(path):
    attempt(python, os.path.join(path, "new"), "w")
    attempt(shell, 'echo > "$1/newer"', path)
    attempt(os.mkdir, os.path.join(path, "made"))
    attempt(os.symlink, "/", os.path.join(path, "linked"))
    attempt(os.chmod, path, 0o700)
    attempt(os.utime, path, (1, 1))
outside = [os.getppid()]  # processes that may see other mounts
while outside[-1] > 1:
    outside.append(int(open(f"/proc/{outside[-1]}/stat").read().rpartition(")")[2].split()[1]))
places = [".", *sys.argv[1:]]
found = []
for place in places:
    seen = set()
    for top, folders, files in os.walk(place, followlinks=True):
        if os.path.realpath(top) in seen:
            folders.clear()
        else:
            found.append((top, files))
            seen.add(os.path.realpath(top))
for top, files in found:
    for name in files:
        if not name.startswith("train.py"):
            each(os.path.join(top, name))
    folder(top)
for place in sys.argv[1:]:
    attempt(shutil.rmtree, place)
print("attempts that succeeded:", done)
"""

# The driver's way to run a script, with the events that it needs no framework for.
DRIVER = """
import sys
from workloads.driver import script
from workloads.protocol import Script
source, *arguments = sys.argv[1:]
if "{framework}":
    import tensorflow, h5py
script.run(Script(path=source, text=open(source).read()), arguments, {{}})
open("/tfbench/out/ended", "w").write("yes")
"""


def tree(path: Path) -> dict[str, tuple[object, ...]]:
    """Return all that can be known of the files below a folder, except for when they were read."""
    found: dict[str, tuple[object, ...]] = {}
    for top, folders, files in os.walk(path):
        for each in [Path(top), *(Path(top, name) for name in (*folders, *files))]:
            state = each.lstat()
            content = str(each.readlink()) if each.is_symlink() else ""
            if not each.is_symlink() and each.is_file():
                content = hashlib.sha256(each.read_bytes()).hexdigest()
            found[str(each)] = (
                state.st_mode, state.st_uid, state.st_gid, state.st_size, state.st_nlink, state.st_ino,
                state.st_mtime_ns, state.st_ctime_ns, content,
            )  # fmt: skip
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder that everybody may write to, with small and large files, and links to each other, in and out."""
    user = tmp_path / "user"
    home = write_files(
        user / "home",
        {
            "train.py": ATTACK,
            "small.csv": "old",
            "data/b.csv": "2",
            "data/deep/c.csv": "3",
            "old.h5": "x",
            ".hidden": "4",
        },
    )
    write_files(user / "elsewhere", {"logs/hist.csv": "history", "one.txt": "1", "deep/er/x": "1"})
    for place in (
        home / "large.bin",
        home / "data/large.bin",
        user / "elsewhere/logs/large.bin",
        home / "sparse.h5",
    ):
        with place.open("wb") as file:
            file.truncate(LARGE)
    for number in range(12):
        (home / f"part-{number}").write_bytes(b"x" * (5 << 20))
    for name, target in (
        ("logs", "../elsewhere/logs"), ("absolute", str(user / "elsewhere/deep")), ("one", "../elsewhere/one.txt"),
        ("to-small", "small.csv"), ("to-large", "large.bin"), ("to-data", "data"), ("self", "self"), ("up", ".."),
        ("data/back", "../data"), ("dangling", "/nowhere/x"),
    ):  # fmt: skip
        (home / name).symlink_to(target)
    os.link(home / "small.csv", home / "hard.csv")
    os.link(home / "large.bin", user / "elsewhere/hard.bin")
    for top, folders, files in os.walk(user):
        for each in [Path(top), *(Path(top, name) for name in (*folders, *files))]:
            if not each.is_symlink():
                each.chmod(0o777 if each.is_dir() else 0o666)
    return home


def attack(
    engine: Engine, used: ImageInfo, home: Path, framework: str = "", mounts: tuple[Path, ...] = ()
) -> None:
    """Run the attack; check that it came to its end and that the user's files are as they were."""
    out = home.parents[1] / "out"
    out.mkdir()
    before = tree(home.parent)
    spec = container_spec(
        image=used,
        command=(
            "python3",
            "-c",
            DRIVER.format(framework=framework),
            f"{FILE_DIR}/train.py",
            *map(str, mounts),
        ),
        environment={"PYTHONPATH": "/tfbench"},
        out=out,
        mounts=(
            Mount(container=WORKLOADS_DIR, host=ROOT / "workloads"),
            Mount(container=FILE_DIR, host=home),
            *(Mount(container=str(path), host=path) for path in mounts),
        ),
    )
    exit_, log = run_to_end(engine, spec, 120)
    assert exit_.code == 0, log
    assert (out / "ended").read_text() == "yes", log
    done = int(log.rpartition("succeeded: ")[2].split()[0])
    assert done > 500, "most of what is tried must be possible in the scratch folder"
    after = tree(home.parent)
    assert {path: after.get(path) for path in before} == before
    assert after.keys() == before.keys()


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
def test_a_script_in_a_folder_that_trials_have_of_their_own(tmp_path: Path, place: str) -> None:
    (tmp_path / "out").mkdir()
    with tempfile.NamedTemporaryFile("w", dir=place, suffix=".csv") as neighbour:
        neighbour.write("old")
        neighbour.flush()
        name = Path(neighbour.name).name
        code = f"cd {FILE_DIR}; cat {name}; echo new > {name}; echo 1 > {place}/{name} && cat {place}/{name}"
        spec = container_spec(
            image=image(sys.executable),
            command=("sh", "-c", code),
            out=tmp_path / "out",
            mounts=(Mount(container=FILE_DIR, host=Path(place)),),
        )
        _, log = run_to_end(LocalEngine(protects=True), spec, 60)
        assert log.startswith("old") and log.endswith("1\n") and "Read-only file system" in log
        assert Path(neighbour.name).read_text() == "old"


def test_root_has_no_rights_over_the_machine(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    setting = "/proc/sys/kernel/core_pattern"
    code = f"cat {setting} > {setting}; grep CapBnd /proc/self/status; echo 0 > /proc/self/oom_score_adj && echo own"
    spec = container_spec(image=image(sys.executable), command=("sh", "-c", code), out=tmp_path / "out")
    _, log = run_to_end(LocalEngine(protects=True), spec, 60)
    assert "Read-only file system" in log and "CapBnd:\t00000000000000db\nown" in log


def test_a_trials_folder_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk/out").mkdir(parents=True)
    (tmp_path / "runs").symlink_to("disk")
    spec = container_spec(
        image=image(sys.executable),
        command=("sh", "-c", f"echo 1 > {OUT_DIR}/written"),
        out=tmp_path / "runs/out",
    )
    _, log = run_to_end(LocalEngine(protects=True), spec, 60)
    assert log == ""
    assert (tmp_path / "disk/out/written").read_text() == "1\n"


@pytest.mark.tensorflow
@pytest.mark.parametrize("protects", [True, False])
def test_local_engine(home: Path, temporary: Path, tf_python: Path, protects: bool) -> None:
    places = (home.parent / "elsewhere", home, home / "small.csv") if protects else ()
    # Where the kernel protects the files, it does not matter what writes to them.
    attack(
        LocalEngine(protects=protects), image(str(tf_python)), home, "" if protects else "tensorflow", places
    )
    assert list(temporary.iterdir()) == []


@pytest.mark.docker
def test_docker_engine(home: Path) -> None:
    """Docker before version 25 leaves file systems below a mount writable."""
    inner = home / "data/deep"
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "none", inner], check=True)
    try:
        write_files(inner, {"in-it.csv": "5"})
        (inner / "in-it.csv").chmod(0o666)
        with closing(DockerEngine.connect()) as engine:
            used = ImageBuilder(ROOT, paths_here().cache, engine.client, Silent()).ensure("cpu")
            attack(engine, used, home, "tensorflow", (home.parent / "elsewhere",))
    finally:
        subprocess.run(["umount", inner], check=True)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user may write to; pytest's own is closed to others."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def test_a_user_who_is_not_root_has_the_same_protection(reachable: Path) -> None:
    home = write_files(reachable / "home", {"a": "old"})
    for each in ("out", "tmp"):
        (reachable / each).mkdir()
        (reachable / each).chmod(0o777)
    (home / "a").chmod(0o666)
    home.chmod(0o777)
    before = tree(home)
    folders = {
        "tmp": f"{reachable}/tmp",
        "writable": [f"{reachable}/out"],
        "visible": [str(home)],
        "shown": [],
    }
    code = (
        f"cd {home}; cat a; echo > a; echo > new; touch a; chmod 600 a; mv a b; rm -f a; mount -o remount,rw {home}; "
        f"echo 1 > {reachable}/out/written; echo 2 > /tmp/written; echo 3 > /dev/shm/written; id -u; "
        "echo 800 > /proc/self/oom_score_adj && cat /proc/self/oom_score_adj"
    )
    command = ["/usr/bin/python3", "-I", "-S", "-c", SOURCE, json.dumps(folders), "/bin/sh", "-c", code]
    user = 65534 if os.getuid() == 0 else os.getuid()
    privileged = {"user": user, "group": user, "extra_groups": []} if os.getuid() == 0 else {}
    told = subprocess.run(command, capture_output=True, text=True, check=False, **privileged)
    assert told.stdout == f"old{user}\n800\n", told.stderr
    assert tree(home) == before
    assert (reachable / "out/written").read_text() == "1\n"
    assert (reachable / "tmp/written").read_text() == "2\n"
    assert not Path("/tmp/written").exists() and not Path("/dev/shm/written").exists()


def test_a_trials_folder_on_a_file_system_below_tmp() -> None:
    """It is covered by the trial's own /tmp, where its path is an ordinary folder that cannot be remounted."""
    with tempfile.TemporaryDirectory(dir="/tmp") as disk:
        folders = {
            "tmp": f"{disk}/tmp",
            "writable": [f"{disk}/out"],
            "visible": [f"{disk}/home"],
            "shown": [],
        }
        mounted = f'mount -t tmpfs none {disk} && mkdir {disk}/tmp {disk}/out {disk}/home && exec "$@"'
        code = f"echo 1 > {disk}/out/a; cat {disk}/out/a; echo 2 > {disk}/home/a || echo refused"
        user = () if os.getuid() == 0 else ("--user", "--map-root-user")
        command = ["/usr/bin/python3", "-I", "-S", "-c", SOURCE, json.dumps(folders), "/bin/sh", "-c", code]
        told = subprocess.run(
            ["unshare", *user, "--mount", "sh", "-c", mounted, "sh", *command],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert told.stdout == "1\nrefused\n", told.stderr


def test_what_cannot_be_protected_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = write_files(
        tmp_path / "home", {"train.py": "", "runs/1/plan.json": "", "runs/1/manifest.json": ""}
    )
    (home / "up").symlink_to("..")
    engine = LocalEngine(protects=False)
    engine.require_safe([home], [])
    with pytest.raises(UsageError, match="--mount"):
        engine.require_safe([home], [tmp_path])
    with (home / "large").open("wb") as file:
        file.truncate(COPIED_BYTES)
    with (tmp_path / "more").open("wb") as file:
        file.truncate(1)
    with pytest.raises(UsageError, match="more than"):
        engine.require_safe([home], [])
    engine = LocalEngine(protects=True)
    engine.require_safe([home], [tmp_path])
    monkeypatch.setattr(tempfile, "tempdir", "/a:b")
    with pytest.raises(UsageError, match="/a:b, has a colon"):
        engine.require_safe([home], [])


def _beside_script(name: str) -> Path:
    """Return the place in a container of what is beside a script's folder."""
    return Path(os.path.normpath(Path(FILE_DIR).parent / name))


def test_what_links_lead_to_is_mounted_where_they_lead(tmp_path: Path) -> None:
    home = write_files(tmp_path / "a/home", {"train.py": "", "data/x": ""})
    tmp_path.chmod(0o755)
    other = write_files(tmp_path / "other", {"logs/x": ""}) / "logs"
    for name in ("a/data/x", "workloads/x"):
        write_files(tmp_path, {name: ""})
    for name, target in (
        ("logs", "../../other/logs"), ("data/absolute", str(other)), ("inside", "data"), ("up", ".."), ("gone", "none"),
        ("python", "/usr/bin/env"), ("root", "/"), ("etc", "../" * 9 + "etc"), ("tmp", "/tmp"), ("beside", "../data"),
        ("driver", "../../workloads"),
    ):  # fmt: skip
        (home / name).symlink_to(target)
    assert {mount.container: mount.host for mount in linked({Path(FILE_DIR): home})} == {
        str(_beside_script("../other/logs")): other,
        str(_beside_script("data")): tmp_path / "a/data",
        str(_beside_script("../workloads")): tmp_path / "workloads",
        str(other): other,
    }
    assert all(mount.read_only for mount in linked({Path(FILE_DIR): home}))


def test_links_below_what_links_lead_to_are_followed_too(tmp_path: Path) -> None:
    """And a script that is a link brings the modules beside the file that it leads to."""
    home = write_files(tmp_path / "home", {"own.py": ""})
    tmp_path.chmod(0o755)
    for folder in ("store", "ssd/train", "real"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "real/train.py").touch()
    (home / "data").symlink_to("../store")
    (tmp_path / "store/train").symlink_to("../ssd/train")
    (tmp_path / "store/back").symlink_to("../store")
    (home / "train.py").symlink_to("../real/train.py")
    places = {str(_beside_script(name)): tmp_path / name for name in ("store", "ssd/train")}
    for script, more in (("own.py", "real/train.py"), ("train.py", "real")):
        found = {mount.container: mount.host for mount in linked({Path(FILE_DIR): home}, home / script)}
        assert found == places | {str(_beside_script(more)): tmp_path / more}
    mounted = linked({Path(FILE_DIR): home, tmp_path / "store": tmp_path / "store"})
    found = {mount.container: mount.host for mount in mounted}
    assert found == places | {
        str(tmp_path / "ssd/train"): tmp_path / "ssd/train",
        str(_beside_script("real/train.py")): tmp_path / "real/train.py",
    }  # fmt: skip


def test_a_link_to_where_nobody_can_look_does_not_stop_a_script(tmp_path: Path) -> None:
    """As that of a virtual environment to a Python in root's folder does in a container."""
    path = write_files(tmp_path / "home", {"train.py": "print('ran')", "environment/x": ""}) / "train.py"
    (path.parent / "environment/python").symlink_to(f"/{'n' * 300}")
    command = [sys.executable, "-c", DRIVER.format(framework="").rpartition("open(")[0], str(path)]
    environment = {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path), OPENED: str(tmp_path / "opened")}
    assert subprocess.check_output(command, env=environment, text=True) == "ran\n"


def test_file_systems_below_a_mount_are_read_only_too() -> None:
    mounts = (
        Mount(container=FILE_DIR, host=Path("/home/me")),
        Mount(container="/out", host=Path("/home/out"), read_only=False),
    )
    inner = with_inner(mounts, ["/", "/home", "/home/me", "/home/me/data/nfs", "/home/mess", "/home/out/x"])
    assert inner == (*mounts, Mount(container=f"{FILE_DIR}/data/nfs", host=Path("/home/me/data/nfs")))
