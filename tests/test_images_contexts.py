"""Names of images and what they are built from."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
import yaml

from harness.errors import EngineError, ImageError
from harness.images.build import tar_stream
from harness.images.builder import ImageBuilder
from harness.images.compose import read_declaration, read_targets, update_env
from harness.images.contexts import Base, BuildContexts
from harness.progress import Silent
from harness.run.provision import TARGETS
from tests.wheelhouse import ROOT, make_checkout, make_wheel, write_lock

BASE = Base(reference="python:x", identity="python:x@1")


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """Return wheels that lie in the cache by hand, so that nothing is fetched."""
    return [make_wheel(tmp_path / "cache" / "wheels", name) for name in ("alpha", "beta")]


@pytest.fixture
def checkout(tmp_path: Path, wheels: list[Path]) -> Path:
    return make_checkout(tmp_path / "checkout", wheels)


@pytest.fixture
def contexts(tmp_path: Path, checkout: Path) -> BuildContexts:
    return BuildContexts(checkout, tmp_path / "cache", Silent())


class TestTag:
    def test_is_the_same_for_the_same_content_elsewhere(
        self, tmp_path: Path, contexts: BuildContexts, wheels: list[Path]
    ) -> None:
        other = BuildContexts(make_checkout(tmp_path / "other", wheels), tmp_path / "elsewhere", Silent())
        assert other.tag("cpu", BASE) == contexts.tag("cpu", BASE)
        assert contexts.tag("cpu", BASE).startswith("tfbench:cpu-")
        assert len(contexts.tag("cpu", BASE)) == len("tfbench:cpu-") + 12

    @pytest.mark.parametrize("file", ["images/Dockerfile", "images/cpu.lock"])
    def test_changes_with_every_file_that_goes_in(
        self, contexts: BuildContexts, checkout: Path, file: str
    ) -> None:
        before = contexts.tag("cpu", BASE)
        with (checkout / file).open("a") as changed:
            changed.write("# a byte more\n")
        assert contexts.tag("cpu", BASE) != before

    def test_changes_with_target_and_base(self, contexts: BuildContexts) -> None:
        renewed = Base(reference=BASE.reference, identity="python:x@2")
        tags = {contexts.tag("cpu", BASE), contexts.tag("cuda", BASE), contexts.tag("cpu", renewed)}
        assert len(tags) == 3

    def test_does_not_change_with_another_targets_lock(self, contexts: BuildContexts, checkout: Path) -> None:
        before = contexts.tag("cpu", BASE)
        write_lock(checkout / "images/cuda.lock", [make_wheel(checkout, "gamma")])
        assert contexts.tag("cpu", BASE) == before

    def test_the_bootstrapped_base_is_named_by_its_script(
        self, contexts: BuildContexts, checkout: Path
    ) -> None:
        before = contexts.bootstrapped_base().reference
        with (checkout / "images/base.sh").open("a") as script:
            script.write("# changed\n")
        assert contexts.bootstrapped_base().reference != before

    def test_the_pinned_base_has_a_digest(self, contexts: BuildContexts) -> None:
        assert "@sha256:" in contexts.default_base().reference

    def test_a_target_without_a_lock(self, contexts: BuildContexts) -> None:
        with pytest.raises(ImageError, match="no lock"):
            contexts.tag("tpu", BASE)


class TestLayOut:
    def test_has_all_that_the_build_needs_and_nothing_else(
        self, contexts: BuildContexts, checkout: Path, wheels: list[Path]
    ) -> None:
        stale = checkout / "images/context/cpu/wheels/old-1.0-py3-none-any.whl"
        stale.parent.mkdir(parents=True)
        stale.write_text("from another lock")
        context = contexts.lay_out("cpu", BASE).context
        files = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
        assert files == {"Dockerfile", "requirements.lock", *(f"wheels/{wheel.name}" for wheel in wheels)}
        assert (context / "requirements.lock").read_bytes() == (checkout / "images/cpu.lock").read_bytes()

    def test_wheels_take_no_space_twice(self, contexts: BuildContexts, wheels: list[Path]) -> None:
        context = contexts.lay_out("cpu", BASE).context
        assert (context / "wheels" / wheels[0].name).samefile(wheels[0])

    def test_twice_is_once(self, contexts: BuildContexts, wheels: list[Path]) -> None:
        for _ in range(2):
            context = contexts.lay_out("cpu", BASE).context
        assert sorted(p.name for p in (context / "wheels").iterdir()) == sorted(w.name for w in wheels)

    def test_compose_finds_every_variable_and_folder_after_one_target(
        self, contexts: BuildContexts, checkout: Path
    ) -> None:
        contexts.lay_out("cpu", BASE)
        env = dict(line.split("=", 1) for line in (checkout / ".env").read_text().splitlines())
        for target in contexts.targets():
            declared = read_declaration(checkout / "docker-compose.yml", target, env)
            assert declared.image == contexts.tag(target, BASE)
            assert declared.args == {"BASE": BASE.reference}
            assert declared.context.is_dir()

    def test_a_checkout_that_cannot_be_written(self, contexts: BuildContexts, checkout: Path) -> None:
        (checkout / "images/context").write_text("in the way")
        with pytest.raises(ImageError, match="cannot be written"):
            contexts.lay_out("cpu", BASE)


class TestCompose:
    def test_every_service_builds_its_own_stage_without_a_network(self) -> None:
        compose = ROOT / "docker-compose.yml"
        assert read_targets(compose) == TARGETS
        stages = (ROOT / "images/Dockerfile").read_text()
        variables = BuildContexts(ROOT, Path("/nowhere"), Silent()).variables(BASE)
        for target in read_targets(compose):
            declared = read_declaration(compose, target, variables)
            assert f" AS {declared.stage}\n" in stages
            assert declared.network == "none"
            assert declared.context == ROOT / "images/context" / target

    def test_services_say_nothing_about_the_build_that_the_harness_would_not_do(self) -> None:
        services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
        for service in services.values():
            assert set(service["build"]) == {"context", "dockerfile", "target", "network", "args"}

    def test_a_variable_that_is_not_set_says_what_to_do(self) -> None:
        with pytest.raises(ImageError, match="make wheels"):
            read_declaration(ROOT / "docker-compose.yml", "cpu", {})

    def test_an_unknown_target_names_the_known(self) -> None:
        with pytest.raises(ImageError) as caught:
            read_declaration(ROOT / "docker-compose.yml", "tpu", {})
        assert "cpu, cuda" in caught.value.hint

    @pytest.mark.parametrize("text", ["services: [", "a: 1", "services:\n  - cpu", "[]"])
    def test_a_broken_file(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "c.yml").write_text(text)
        with pytest.raises(ImageError, match="not a compose file"):
            read_targets(tmp_path / "c.yml")

    def test_defaults(self, tmp_path: Path) -> None:
        (tmp_path / "c.yml").write_text("services: {x: {image: '${A:-a}-${B}', build: {context: .}}}")
        assert read_declaration(tmp_path / "c.yml", "x", {"B": "b"}).image == "a-b"

    def test_env_keeps_what_is_not_ours(self, tmp_path: Path) -> None:
        env = tmp_path / ".env"
        env.write_text("# mine\nDOCKER_HOST=x\nTFBENCH_CPU_IMAGE=old\n")
        update_env(env, {"TFBENCH_CPU_IMAGE": "new", "TFBENCH_CPU_BASE": "b"})
        expected = "# mine\nDOCKER_HOST=x\nTFBENCH_CPU_IMAGE=new\nTFBENCH_CPU_BASE=b\n"
        assert env.read_text() == expected


class TestWithoutAnEngine:
    def test_fetch_is_enough_for_compose(self, tmp_path: Path, checkout: Path) -> None:
        builder = ImageBuilder(checkout, tmp_path / "cache", None, Silent())
        assert (builder.fetch("cpu") / "Dockerfile").exists()
        assert "TFBENCH_CPU_BASE=python:3.13-slim" in (checkout / ".env").read_text()

    def test_building_says_what_is_missing(self, tmp_path: Path, checkout: Path) -> None:
        with pytest.raises(EngineError, match="no container engine"):
            ImageBuilder(checkout, tmp_path / "cache", None, Silent()).ensure("cpu")


def test_the_streamed_tar_holds_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "context"
    (folder / "wheels").mkdir(parents=True)
    content = {
        "Dockerfile": b"FROM x\n",
        "wheels/" + "n" * 120 + ".whl": bytes(1_500_000),
        "wheels/empty": b"",
    }
    for name, data in content.items():
        (folder / name).write_bytes(data)
    chunks = list(tar_stream(folder))
    assert max(map(len, chunks)) <= 1 << 20
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        read = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
    assert read == content
    assert list(tar_stream(folder)) == chunks
