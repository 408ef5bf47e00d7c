"""Names of images, what they are built from, and that docker-compose.yml builds the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from harness.errors import EngineError, ImageError
from harness.images.build import classic
from harness.images.build_context import TARGETS, Base, Recipes, compose_variables, update_env
from harness.images.builder import ImageBuilder, image_contents
from harness.progress import Silent
from tests.wheelhouse import ROOT, make_checkout, make_wheel, write_lock

BASE = Base(reference="python:x", identity="python:x@1")
ATTRIBUTES = {"Id": "1", "Created": "x", "Config": {"User": "u"}, "RootFS": {"Layers": ["a", "b"]}}


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """Return wheels that lie in the cache by hand, so that nothing is fetched."""
    return [make_wheel(tmp_path / "cache" / "wheels", name) for name in ("alpha", "beta")]


@pytest.fixture
def checkout(tmp_path: Path, wheels: list[Path]) -> Path:
    return make_checkout(tmp_path / "checkout", wheels)


@pytest.fixture
def recipes(checkout: Path) -> Recipes:
    return Recipes(checkout / "images")


@pytest.fixture
def builder(tmp_path: Path, checkout: Path) -> ImageBuilder:
    """Return a builder without an engine."""
    return ImageBuilder(checkout, tmp_path / "cache", None, Silent())


class TestTag:
    def test_is_the_same_for_the_same_content_elsewhere(
        self, tmp_path: Path, recipes: Recipes, wheels: list[Path]
    ) -> None:
        other = Recipes(make_checkout(tmp_path / "other", wheels) / "images")
        assert other.tag("cpu", BASE) == recipes.tag("cpu", BASE)
        assert re.fullmatch(r"tfbench:cpu-[0-9a-f]{12}", recipes.tag("cpu", BASE))

    @pytest.mark.parametrize("file", ["Dockerfile", "image.sh", "install.sh", "installer.lock", "cpu.lock"])
    def test_changes_with_every_file_that_goes_in(self, recipes: Recipes, checkout: Path, file: str) -> None:
        before = recipes.tag("cpu", BASE)
        with (checkout / "images" / file).open("a") as changed:
            changed.write("# a byte more\n")
        assert recipes.tag("cpu", BASE) != before

    def test_changes_with_target_and_base(self, recipes: Recipes) -> None:
        renewed = Base(reference=BASE.reference, identity="python:x@2")
        assert len({recipes.tag("cpu", BASE), recipes.tag("cuda", BASE), recipes.tag("cpu", renewed)}) == 3

    def test_does_not_change_with_another_targets_lock(self, recipes: Recipes, checkout: Path) -> None:
        before = recipes.tag("cpu", BASE)
        write_lock(checkout / "images/cuda.lock", [make_wheel(checkout, "gamma")])
        assert recipes.tag("cpu", BASE) == before

    @pytest.mark.parametrize("file", ["base.sh", "base.lock"])
    def test_the_bootstrapped_base_is_named_by_what_makes_it(
        self, recipes: Recipes, checkout: Path, file: str
    ) -> None:
        before = recipes.bootstrapped_base().reference
        with (checkout / "images" / file).open("a") as script:
            script.write("# changed\n")
        assert recipes.bootstrapped_base().reference != before

    def test_the_pinned_base_has_a_digest(self, recipes: Recipes) -> None:
        assert "@sha256:" in recipes.pinned_base().reference

    def test_a_target_without_a_lock(self, recipes: Recipes) -> None:
        with pytest.raises(ImageError, match="no lock"):
            recipes.tag("tpu", BASE)


class TestFetch:
    def test_lays_out_all_that_the_build_needs_and_nothing_else(
        self, builder: ImageBuilder, checkout: Path, wheels: list[Path]
    ) -> None:
        stale = checkout / "images/context/cpu/wheels/old-1.0-py3-none-any.whl"
        stale.parent.mkdir(parents=True)
        stale.write_text("from another lock")
        for _ in range(2):
            context = builder.fetch("cpu")
        files = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
        installed = {f"wheels/{wheel.name}" for wheel in wheels} | {"wheels/uv-1.0-py3-none-any.whl"}
        assert files == {"Dockerfile", "image.sh", "install.sh", "requirements.lock", *installed}
        assert (context / "requirements.lock").read_bytes() == (checkout / "images/cpu.lock").read_bytes()
        # Wheels take no space twice.
        assert (context / "wheels" / wheels[0].name).samefile(wheels[0])

    def test_compose_has_every_variable_and_folder_after_one_target(
        self, builder: ImageBuilder, recipes: Recipes, checkout: Path
    ) -> None:
        builder.fetch("cpu")
        env = dict(line.split("=", 1) for line in (checkout / ".env").read_text().splitlines())
        assert env == compose_variables(recipes, recipes.pinned_base())
        assert all((checkout / "images/context" / target).is_dir() for target in TARGETS)

    def test_a_failure_leaves_neither_env_nor_context(
        self, builder: ImageBuilder, checkout: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        write_lock(checkout / "images/cpu.lock", [make_wheel(checkout, "gamma")])
        with pytest.raises(ImageError, match="gamma"):
            builder.fetch("cpu")
        assert not (checkout / ".env").exists()
        assert not (checkout / "images/context").exists()

    def test_a_checkout_that_cannot_be_written(self, builder: ImageBuilder, checkout: Path) -> None:
        (checkout / "images/context").write_text("in the way")
        with pytest.raises(ImageError, match="cannot be written"):
            builder.fetch("cpu")

    def test_without_an_engine_nothing_is_built(self, builder: ImageBuilder) -> None:
        with pytest.raises(EngineError, match="no container engine"):
            builder.ensure("cpu")


class TestCompose:
    def test_every_service_builds_what_the_harness_builds(self) -> None:
        services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        assert set(services) == set(TARGETS)
        stages = (ROOT / "images/Dockerfile").read_text()
        variables = compose_variables(Recipes(ROOT / "images"), BASE)
        for target, service in services.items():
            prefix = f"TFBENCH_{target.upper().replace('-', '_')}"
            assert {f"{prefix}_IMAGE", f"{prefix}_BASE"} <= set(variables)
            assert service["image"].startswith(f"${{{prefix}_IMAGE:?")
            assert service["build"].pop("args")["BASE"].startswith(f"${{{prefix}_BASE:?")
            assert service["build"] == {
                "context": f"./images/context/{target}",
                "target": target,
                "network": "none",
            }
            assert f" AS {target}\n" in stages

    def test_env_keeps_what_is_not_ours(self, tmp_path: Path) -> None:
        env = tmp_path / ".env"
        env.write_text("# mine\nDOCKER_HOST=x\nTFBENCH_CPU_IMAGE=old\n")
        update_env(env, {"TFBENCH_CPU_IMAGE": "new", "TFBENCH_CPU_BASE": "b"})
        expected = "# mine\nDOCKER_HOST=x\nTFBENCH_CPU_IMAGE=new\nTFBENCH_CPU_BASE=b\n"
        assert env.read_text() == expected


class TestContents:
    def test_say_nothing_of_who_built_it_and_when(self) -> None:
        again = {**ATTRIBUTES, "Id": "2", "Created": "y"}
        assert image_contents(again) == image_contents(ATTRIBUTES)

    @pytest.mark.parametrize("change", [{"Config": {"User": "v"}}, {"RootFS": {"Layers": ["a", "c"]}}])
    def test_change_with_files_and_settings(self, change: dict[str, object]) -> None:
        assert image_contents({**ATTRIBUTES, **change}) != image_contents(ATTRIBUTES)


def test_for_a_builder_that_cannot_mount_the_context_is_copied() -> None:
    dockerfile = (ROOT / "images/Dockerfile").read_text()
    rewritten = classic(dockerfile)
    instructions = [line for line in rewritten.splitlines() if line and not line.startswith("#")]
    assert not any("--mount" in line for line in instructions)
    assert "COPY . /mnt/" in instructions
