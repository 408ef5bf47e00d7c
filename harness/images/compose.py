"""Read what docker-compose.yml declares about the images, and fill in its variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.errors import ImageError

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<kind>:?[?-])(?P<text>[^}]*))?\}")
_HINT = "Restore docker-compose.yml from the repository, or correct it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """One service's image, as `docker-compose build` would build it."""

    target: str
    image: str
    context: Path
    dockerfile: str
    stage: str
    network: str
    args: Mapping[str, str]


def variable(target: str, what: str) -> str:
    """Return the name of the variable that gives a target's `what`: IMAGE or BASE."""
    return f"TFBENCH_{target.upper().replace('-', '_')}_{what}"


def read_targets(compose: Path) -> tuple[str, ...]:
    """Return the services that declare a build, in the file's order.

    Raises:
        ImageError: the file is missing or not a compose file.
    """
    return tuple(name for name, service in _services(compose).items() if "build" in service)


def read_declaration(compose: Path, target: str, variables: Mapping[str, str]) -> Declaration:
    """Return what the compose file declares for `target`, with `variables` filled in.

    Raises:
        ImageError: the file is missing or broken, or declares no such target or needs another variable.
    """
    service = _services(compose).get(target)
    if service is None or "build" not in service:
        known = ", ".join(read_targets(compose))
        raise ImageError(f"docker-compose.yml builds no image {target!r}.", hint=f"It has: {known}.")
    build = _fill(service["build"], variables)
    return Declaration(
        target=target,
        image=_fill(service["image"], variables),
        context=(compose.parent / build["context"]).resolve(),
        dockerfile=build.get("dockerfile", "Dockerfile"),
        stage=build.get("target", ""),
        network=build.get("network", ""),
        args=dict(build.get("args", {})),
    )


def _services(compose: Path) -> dict[str, dict[str, Any]]:
    try:
        document = yaml.safe_load(compose.read_text(encoding="utf-8"))
        services = document["services"]
        return {str(name): dict(service) for name, service in services.items()}
    except OSError as error:
        raise ImageError(f"{compose} cannot be read: {error.strerror}.", hint=_HINT) from error
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ImageError(f"{compose} is not a compose file: {error}.", hint=_HINT) from error


def _fill(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(inner, variables) for key, inner in value.items()}
    if isinstance(value, list):
        return [_fill(inner, variables) for inner in value]
    return _VARIABLE.sub(lambda match: _resolve(match, variables), value) if isinstance(value, str) else value


def _resolve(match: re.Match[str], variables: Mapping[str, str]) -> str:
    name, kind, text = match["name"], match["kind"] or "", match["text"] or ""
    if variables.get(name):
        return variables[name]
    if kind.endswith("-"):
        return text
    raise ImageError(f"docker-compose.yml needs the variable {name}: {text or 'it is not set'}.", hint=_HINT)


def update_env(env: Path, values: Mapping[str, str]) -> None:
    """Set `values` in a compose `.env` file; what else it holds stays as it is.

    Raises:
        OSError: the file cannot be written.
    """
    before = env.read_text(encoding="utf-8") if env.exists() else ""
    kept = [line for line in before.splitlines() if line.split("=", 1)[0].strip() not in values]
    after = "".join(f"{line}\n" for line in [*kept, *(f"{k}={v}" for k, v in values.items())])
    if after != before:
        temporary = env.with_name(env.name + ".partial")
        temporary.write_text(after, encoding="utf-8")
        temporary.replace(env)
