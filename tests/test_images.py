import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from harness.errors import ImageError, StoreError, UsageError
from harness.images.builder import ImageBuilder, image_contents
from harness.images.extra import extra_lock
from harness.images.local_environment import ensure_environment, library_variables
from harness.images.recipes import TARGETS, Recipes
from harness.images.wheels import Pin, fetch_wheels, is_wheel_of, read_lock, sbom
from harness.progress import Progress, Silent, Task
from tests.builders import manifest
from tests.commands import output_of
from tests.conftest import ROOT
from tests.errors import user_error
from tests.fakes import RecordingProgress
from tests.folders import write_files
from tests.wheelhouse import RAN, SOURCE_TREE, make_checkout, make_wheel, sha256, use_only, write_lock

BASE = "python:x"
ATTRIBUTES = {"Id": "1", "Created": "x", "Config": {"User": "u"}, "RootFS": {"Layers": ["a", "b"]}}


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """Return wheels that are already in the cache, so that nothing is downloaded."""
    return [make_wheel(tmp_path / "cache" / "wheels", name) for name in ("alpha", "beta")]


@pytest.fixture
def checkout(tmp_path: Path, wheels: list[Path]) -> Path:
    return make_checkout(tmp_path / "checkout", wheels)


@pytest.fixture
def recipes(checkout: Path) -> Recipes:
    return Recipes(checkout / "images")


@pytest.fixture
def builder(tmp_path: Path, checkout: Path) -> ImageBuilder:
    return ImageBuilder(checkout, tmp_path / "cache", None, Silent())


class TestTag:
    @pytest.mark.parametrize("file", ["Dockerfile", "image.sh", "install.sh", "installer.lock", "cpu.lock"])
    def test_depends_only_on_content_of_files(self, tmp_path, wheels, recipes, file):
        other = make_checkout(tmp_path / "other", wheels) / "images"
        assert Recipes(other).tag("cpu", BASE) == recipes.tag("cpu", BASE)
        with (other / file).open("a") as changed:
            changed.write("# changed\n")
        assert Recipes(other).tag("cpu", BASE) != recipes.tag("cpu", BASE)
        assert (Recipes(other).tag("cuda", BASE) != recipes.tag("cuda", BASE)) == (file != "cpu.lock")
        # A bootstrapped base is named by its script and lock.
        assert Recipes(other).bootstrapped_base() == (base := recipes.bootstrapped_base())
        (other / ("base.sh" if file == "image.sh" else "base.lock")).write_text("changed")
        assert Recipes(other).bootstrapped_base() != base
        with pytest.raises(ImageError, match="Cannot read"):
            Recipes(tmp_path).tag("cpu", BASE)


class TestArm:
    @pytest.mark.parametrize("target", ["cpu", "trees-cpu"])
    def test_cpu_images_have_their_own_locks_with_the_same_versions(self, target):
        arm, other = (Recipes(ROOT / "images", machine) for machine in ("aarch64", "x86_64"))
        assert arm.lock_sha256(target) != other.lock_sha256(target)
        assert arm.tag(target, BASE) != other.tag(target, BASE)
        versions = [
            {pin.name.removesuffix("-cpu"): pin.version for pin in each.pins(target)} for each in (arm, other)
        ]
        assert versions[0] == versions[1]

    @pytest.mark.parametrize("target", ["cuda", "trees-cuda"])
    def test_cuda_is_refused(self, target):
        arm = Recipes(ROOT / "images", "aarch64")
        with user_error(ImageError, f"no {target} image for aarch64", hint="--device cpu"):
            arm.tag(target, BASE)
        assert not arm.supports(target)
        assert f"=tfbench:{target}-none\n" in arm.compose_variables(BASE)


class TestFetch:
    def test_context_has_exactly_the_files_of_the_build(self, builder, recipes, checkout, wheels):
        stale = checkout / "images/context/cpu/wheels/old-1.0-py3-none-any.whl"
        stale.parent.mkdir(parents=True)
        stale.write_text("from another lock")
        for _ in range(2):
            context = builder.fetch("cpu")
        files = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
        installed = {f"wheels/{wheel.name}" for wheel in wheels} | {"wheels/uv-1.0-py3-none-any.whl"}
        assert files == {"Dockerfile", "image.sh", "install.sh", "requirements.lock", *installed}
        assert (context / "requirements.lock").read_bytes() == (checkout / "images/cpu.lock").read_bytes()
        # Wheels are hard links.
        assert (context / "wheels" / wheels[0].name).samefile(wheels[0])
        # docker-compose 1.29 needs every target's folder and variable.
        assert (checkout / ".env").read_text() == recipes.compose_variables(recipes.pinned_base())
        (checkout / ".env").write_text("MINE=1\nTFBENCH_CACHE=/data\nTFBENCH_BASE=old\n")
        builder.fetch("cpu")
        assert (checkout / ".env").read_text() == "MINE=1\nTFBENCH_CACHE=/data\n" + recipes.compose_variables(
            recipes.pinned_base()
        )
        assert all((checkout / "images/context" / target).is_dir() for target in TARGETS)

    def test_failure_leaves_no_files(self, builder, checkout, tmp_path, monkeypatch):
        use_only(checkout / "images", monkeypatch)
        lock = (checkout / "images/cpu.lock").read_bytes()
        write_lock(checkout / "images/cpu.lock", [make_wheel(checkout, "gamma")])
        with pytest.raises(ImageError, match="gamma"):
            builder.fetch("cpu")
        assert not (checkout / ".env").exists()
        assert not (checkout / "images/context").exists()
        (checkout / "images/cpu.lock").write_bytes(lock)
        for path in ("checkout/images/context", "cache/wheels"):
            shutil.rmtree(tmp_path / path, ignore_errors=True)
            (tmp_path / path).write_text("a file, not a folder")
            with pytest.raises(StoreError, match=r"exists already|is not in a folder"):
                builder.fetch("cpu")
            (tmp_path / path).unlink()


def test_compose_services_build_the_targets():
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assert set(services) == set(TARGETS)
    variables = Recipes(ROOT / "images").compose_variables(BASE)
    for target, service in services.items():
        name = service["image"].removeprefix("${").partition(":?")[0]
        assert f"{name}=tfbench:{target}-" in variables
        assert service["build"]["context"] == f"./images/context/{target}"
        assert service["build"]["args"]["BASE"].startswith("${TFBENCH_BASE:?")
    assert "TFBENCH_BASE=python:x\n" in variables
    for change in ({"Config": {"User": "v"}}, {"RootFS": {"Layers": ["a", "c"]}}):
        assert image_contents({**ATTRIBUTES, **change}) != image_contents(ATTRIBUTES)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder in which pip finds packages."""
    folder = tmp_path / "index"
    folder.mkdir()
    use_only(folder, monkeypatch)
    return folder


def fetch(lock: Path, cache: Path, progress: Progress | None = None) -> tuple[Path, ...]:
    try:
        return fetch_wheels(read_lock(lock.read_text()), cache, "3.13", progress or Silent())
    finally:
        assert not list(cache.glob("wheels/.partial-*"))


@pytest.mark.slow
class TestWheels:
    def test_all_wheels_are_downloaded_with_one_progress_bar(self, tmp_path, index):
        wheels = [make_wheel(index, name) for name in ("alpha", "beta", "gamma")]
        progress = RecordingProgress()
        fetched = fetch(write_lock(tmp_path / "x.lock", wheels), tmp_path / "cache", progress)
        assert [path.name for path in fetched] == [wheel.name for wheel in wheels]
        assert [sha256(path) for path in fetched] == [sha256(wheel) for wheel in wheels]
        assert [task.total for task in progress.tasks] == [sum(wheel.stat().st_size for wheel in wheels)]

    def test_wrong_hash_is_an_error(self, tmp_path, index):
        lock = write_lock(tmp_path / "x.lock", [make_wheel(index, "alpha")])
        with (index / "alpha-1.0-py3-none-any.whl").open("ab") as file:
            file.write(b"tampered")
        with pytest.raises(ImageError, match="DO NOT MATCH THE HASHES"):
            fetch(lock, tmp_path / "cache")
        assert list((tmp_path / "cache").rglob("*.whl")) == []

    def test_unreachable_index_is_an_error(self, tmp_path, index, monkeypatch):
        lock = write_lock(tmp_path / "x.lock", [make_wheel(index, "alpha")])
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")
        with user_error(ImageError, "index is not reachable", hint="copy the wheels"):
            fetch(lock, tmp_path / "cache")

    def test_interrupted_download_keeps_finished_wheels(self, tmp_path, index):
        alpha, slow = (make_wheel(index, name) for name in ("alpha", "slow"))
        lock = write_lock(tmp_path / "x.lock", [alpha, slow])
        slow.unlink()
        os.mkfifo(slow)  # reading it blocks forever
        with pytest.raises(KeyboardInterrupt):
            fetch(lock, tmp_path / "cache", InterruptingProgress(tmp_path / "cache"))
        assert [path.name for path in (tmp_path / "cache").rglob("*.whl")] == [alpha.name]


class InterruptingProgress(RecordingProgress):
    def __init__(self, cache: Path) -> None:
        super().__init__()
        self._cache = cache

    @contextmanager
    def task(self, label: str, total: float | None) -> Iterator[Task]:
        yield self

    def advance(self, amount: float) -> None:
        if list(self._cache.glob("wheels/.partial-*/*/*.whl")):
            raise KeyboardInterrupt


@pytest.mark.slow
class TestCache:
    def test_damaged_wheel_is_downloaded_again(self, tmp_path, index):
        copied = make_wheel(tmp_path / "other/wheels/from-usb", "alpha")
        progress, lock = RecordingProgress(), write_lock(tmp_path / "copied.lock", [copied])
        assert fetch(lock, tmp_path / "other", progress) == (copied,)
        assert progress.tasks == [], "a copied wheel is used without download"
        cache = tmp_path / "cache"
        lock = write_lock(tmp_path / "x.lock", [make_wheel(index, "alpha")])
        (path,) = fetch(lock, cache)
        content = path.read_bytes()
        path.write_bytes(b"X" + content[1:])
        progress = RecordingProgress()
        assert fetch(lock, cache, progress) == (path,)
        assert [str(path) in line for line in progress.lines] == [True]
        assert path.read_bytes() == content


@pytest.mark.slow
class TestLocks:
    def test_real_locks_are_parsed_completely(self):
        for name in (*TARGETS, "installer", "cpu-aarch64", "trees-cpu-aarch64"):
            text = (ROOT / f"images/{name}.lock").read_text()
            pins = read_lock(text)
            assert len(pins) == text.count("==") > 0
            assert sum(len(pin.sha256) for pin in pins) == text.count("--hash=")
            assert all(pin.size for pin in pins)

    @pytest.mark.parametrize(
        ("file", "matches"),
        [
            ("al_pha-1.0-py3-none-any.whl", True),
            ("al_pha-1.0-cp310-abi3-manylinux2014_x86_64.whl", True),
            ("al_pha-1.0-cp313-cp313-manylinux_2_28_x86_64.whl", True),
            ("al_pha-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", False),
            ("al_pha-1.0-cp313-cp313-manylinux_2_34_x86_64.whl", False),
            ("al_pha-1.1-py3-none-any.whl", False),
            ("al_pha-1.0.tar.gz", False),
        ],
    )
    def test_wheel_names_of_a_pin(self, file, matches):
        pin = Pin(name="al-pha", version="1.0", sha256=frozenset())
        assert is_wheel_of(file, pin, "3.13", "x86_64") is matches
        other = file.replace("x86_64", "aarch64") if "x86_64" in file else file.replace("aarch64", "x86_64")
        assert is_wheel_of(other, pin, "3.13", "aarch64") is matches


@pytest.mark.slow
def test_environment_has_locked_packages_and_is_created_once(tmp_path, checkout):
    progress = RecordingProgress()
    info = ensure_environment("cpu", checkout, tmp_path / "cache", progress)
    assert output_of(info.reference, "-c", "import alpha, beta; print(alpha.VERSION)") == "1.0\n"
    assert progress.tasks
    progress.tasks.clear()
    assert ensure_environment("cpu", checkout, tmp_path / "cache", progress) == info
    assert progress.tasks == []
    (folder,) = (tmp_path / "cache/environments").iterdir()
    assert folder.name == Path(info.reference).parents[1].name


@pytest.mark.slow
def test_environment_is_recreated_for_new_lock_or_missing_interpreter(tmp_path, checkout, monkeypatch):
    before = ensure_environment("cpu", checkout, tmp_path / "cache", Silent())
    write_lock(checkout / "images/cpu.lock", [make_wheel(tmp_path / "cache" / "wheels", "alpha", "2.0")])
    after = ensure_environment("cpu", checkout, tmp_path / "cache", Silent())
    assert after.reference != before.reference
    assert after.digest != before.digest
    assert Path(before.reference).exists()
    python = Path(after.reference)
    for name in ("python", "python3"):
        (python.parent / name).unlink()
        (python.parent / name).symlink_to("/nowhere/python")
    assert ensure_environment("cpu", checkout, tmp_path / "cache", Silent()) == after
    assert python.exists()
    use_only(tmp_path, monkeypatch)
    write_lock(checkout / "images/cpu.lock", [make_wheel(tmp_path / "unreachable", "gamma")])
    with pytest.raises(ImageError, match="gamma"):
        ensure_environment("cpu", checkout, tmp_path / "cache", Silent())
    assert len(list((tmp_path / "cache/environments").iterdir())) == 2, (
        "a failure leaves no partial environment"
    )


@pytest.mark.slow
def test_cuda_libraries_are_added_to_library_path(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    assert library_variables(tmp_path / "bin/python") == {}
    nvidia = tmp_path / "lib/python3.13/site-packages/nvidia"
    for package in ("cublas", "cusolver"):
        (nvidia / package / "lib").mkdir(parents=True)
    variables = library_variables(tmp_path / "bin/python")
    assert variables["LD_LIBRARY_PATH"] == f"{nvidia}/cublas/lib:{nvidia}/cusolver/lib:/mine"
    assert variables["XLA_FLAGS"] == f"--xla_gpu_cuda_data_dir={nvidia}/cuda_nvcc"
    assert variables["PATH"].startswith(f"{nvidia}/cuda_nvcc/bin:")


(IMAGE,) = manifest().images
IMAGE = replace(IMAGE, contents="sha256:" + "9" * 64)
ALPHA, BETA = (Pin(name=name, version="1.0+local", sha256=frozenset()) for name in ("al_pha", "beta"))
STATUS = """Package: bash
Status: install ok installed
Architecture: amd64
Version: 5.2.37-2+b10
Description: GNU Bourne Again SHell
 Version: in the text

Package: util-linux
Status: install ok installed
Architecture: amd64
Version: 1:2.41.5~rc1

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
DOCUMENTS = {
    "small": sbom(IMAGE, {ALPHA: "ab" * 32, BETA: ""}, STATUS, "debian"),
    "without packages": sbom(replace(IMAGE, base="tfbench-base:0123"), {ALPHA: ""}, "", "unknown"),
    "real lock": sbom(
        IMAGE, dict.fromkeys(read_lock((ROOT / "images/cuda.lock").read_text()), "cd" * 32), STATUS, "debian"
    ),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_has_the_schema_of_cyclonedx_and_its_references_are_complete(name: str) -> None:
    pytest.importorskip("cyclonedx")
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    validator, text = JsonStrictValidator(SchemaVersion.V1_5), DOCUMENTS[name].decode()
    assert validator.validate_str(text) is None
    assert validator.validate_str(text.replace('"container"', '"box"')) is not None
    document = json.loads(text)
    references = [each["bom-ref"] for each in document["components"]]
    assert len(set(references)) == len(references)
    assert document["dependencies"] == [{"ref": "image", "dependsOn": references}]


def test_wheels_and_packages_are_listed() -> None:
    base, alpha, beta, bash, util_linux = json.loads(DOCUMENTS["small"])["components"]
    assert (base["name"], base["version"]) == ("python:3.13-slim-trixie", "sha256:" + "cd" * 32)
    assert alpha["purl"] == "pkg:pypi/al-pha@1.0%2Blocal"
    assert alpha["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert "hashes" not in beta
    assert bash["purl"] == "pkg:deb/debian/bash@5.2.37-2%2Bb10?arch=amd64"
    assert util_linux["purl"] == "pkg:deb/debian/util-linux@1:2.41.5~rc1?arch=amd64"
    again, other = (sbom(IMAGE, {ALPHA: each * 32, BETA: ""}, STATUS, "debian") for each in ("ab", "ac"))
    assert again == DOCUMENTS["small"]
    assert json.loads(other)["serialNumber"] != json.loads(again)["serialNumber"]


def test_added_libraries_are_resolved_beside_the_pins_and_pinned_by_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    index = cache / "wheels"
    wheels = [make_wheel(index, "base"), make_wheel(index, "more"), make_wheel(index, "more", "2.0")]
    use_only(index, monkeypatch)
    checkout = make_checkout(tmp_path / "checkout", wheels[:1])
    plain = Recipes(checkout / "images")
    recipes = Recipes(checkout / "images", packages=["more", "Base"])
    recipes.resolve("cpu", cache, Silent())
    assert recipes.added("cpu") == ["more==2.0"]
    assert [pin.text for pin in recipes.pins("cpu")][1:] == [f"more==2.0 --hash=sha256:{sha256(wheels[2])}"]
    assert recipes.tag("cpu", BASE) != plain.tag("cpu", BASE)
    assert recipes.tag("cuda", BASE) == plain.tag("cuda", BASE), "only what is resolved"
    context = recipes.write_context("cpu", tmp_path / "context", cache, Silent())
    assert {path.name for path in (context / "wheels").iterdir()} >= {wheels[0].name, wheels[2].name}
    assert "more==2.0" in (context / "requirements.lock").read_text()
    (index / wheels[2].name).unlink()  # a later resolution would find another version
    again = Recipes(checkout / "images", packages=["more", "Base"])
    again.resolve("cpu", cache, Silent())
    assert again.tag("cpu", BASE) == recipes.tag("cpu", BASE)
    exact = Recipes(checkout / "images", packages=["more==1.0"])
    exact.resolve("cpu", cache, Silent())
    assert exact.added("cpu") == ["more==1.0"]
    with user_error(ImageError, "no wheel of absent", hint="--image cpu=NAME"):
        Recipes(checkout / "images", packages=["absent"]).resolve("cpu", cache, Silent())


@pytest.mark.parametrize("name", ["-r x", "x @ file:///x.whl", "../x"])
def test_what_is_no_library(checkout: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not the name of a library"):
        Recipes(checkout / "images", packages=[name])


def test_pip_uses_no_file_of_the_users_folder(tmp_path, monkeypatch):
    index, here = tmp_path / "index", tmp_path / "here"
    make_wheel(index, "more")
    source = write_files(tmp_path / "source", {"backend.py": f"open({str(tmp_path / RAN)!r}, 'w')"})
    write_files(source, {"pyproject.toml": SOURCE_TREE["pyproject.toml"]})
    here.mkdir()
    shutil.make_archive(str(here / "more"), "zip", source)
    use_only(index, monkeypatch)
    monkeypatch.chdir(here)
    with pytest.raises(ImageError):
        extra_lock(("more.zip",), (), tmp_path / "cache", "3.12", Silent())
    assert not (tmp_path / RAN).exists()
    (here / "json.py").write_text("raise SystemExit('imported')")
    lock = extra_lock(("more",), (), tmp_path / "cache", "3.12", Silent())
    assert [pin.name for pin in read_lock(lock)] == ["more"]
    assert len(fetch_wheels(read_lock(lock), tmp_path / "cache", "3.12", Silent())) == 1


def test_an_index_that_answers_with_a_page_is_told(tmp_path, monkeypatch):
    page = tmp_path / "index" / "absent" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<html>Log in to the proxy</html>")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    with user_error(ImageError, "finds no wheel of absent", hint="whether pip reaches its index"):
        extra_lock(("absent",), (), tmp_path / "cache", "3.12", Silent())
    with user_error(
        ImageError, "finds no wheel of absent", hint="your own module, leave it out: --with other"
    ):
        extra_lock(("absent", "other"), (), tmp_path / "cache", "3.12", Silent())


def test_an_image_that_a_report_names_is_no_path(recipes):
    with pytest.raises(ImageError, match=r"no image '\.\./x'"):
        recipes.lock_sha256("../x")
