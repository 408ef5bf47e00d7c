import shutil
from pathlib import Path

import pytest
import yaml

from harness.errors import ImageError
from harness.images.builder import ImageBuilder, image_contents
from harness.images.recipes import TARGETS, Recipes
from harness.progress import Silent
from tests.wheelhouse import ROOT, make_checkout, make_wheel, use_only, write_lock

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

    @pytest.mark.parametrize("file", ["base.sh", "base.lock"])
    def test_bootstrapped_base_is_named_by_its_script_and_lock(self, recipes, checkout, file):
        before = recipes.bootstrapped_base()
        with (checkout / "images" / file).open("a") as script:
            script.write("# changed\n")
        assert recipes.bootstrapped_base() != before

    def test_outside_of_a_checkout_is_an_error(self, tmp_path):
        with pytest.raises(ImageError, match="Cannot read"):
            Recipes(tmp_path).tag("cpu", BASE)


class TestArm:
    def test_cpu_images_have_their_own_lock(self):
        arm, other = (Recipes(ROOT / "images", machine) for machine in ("aarch64", "x86_64"))
        for target in ("cpu", "trees-cpu"):
            assert arm.lock_sha256(target) != other.lock_sha256(target)
            assert arm.tag(target, BASE) != other.tag(target, BASE)
        assert "tensorflow" in {pin.name for pin in arm.pins("cpu")}

    @pytest.mark.parametrize("target", ["cuda", "trees-cuda"])
    def test_cuda_is_refused(self, target):
        arm = Recipes(ROOT / "images", "aarch64")
        with pytest.raises(ImageError, match=f"no {target} image for aarch64") as raised:
            arm.tag(target, BASE)
        assert "--device cpu" in raised.value.hint
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
        assert all((checkout / "images/context" / target).is_dir() for target in TARGETS)

    def test_failure_leaves_no_files(self, builder, checkout, monkeypatch):
        use_only(checkout / "images", monkeypatch)
        write_lock(checkout / "images/cpu.lock", [make_wheel(checkout, "gamma")])
        with pytest.raises(ImageError, match="gamma"):
            builder.fetch("cpu")
        assert not (checkout / ".env").exists()
        assert not (checkout / "images/context").exists()

    @pytest.mark.parametrize("path", ["checkout/images/context", "cache/wheels"])
    def test_unwritable_folder_is_an_error(self, builder, tmp_path, path):
        shutil.rmtree(tmp_path / path, ignore_errors=True)
        (tmp_path / path).write_text("a file, not a folder")
        with pytest.raises(ImageError, match="Cannot write"):
            builder.fetch("cpu")


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


@pytest.mark.parametrize("change", [{"Config": {"User": "v"}}, {"RootFS": {"Layers": ["a", "c"]}}])
def test_contents_hash_changes_with_layers_and_settings(change):
    assert image_contents({**ATTRIBUTES, **change}) != image_contents(ATTRIBUTES)
