#!/usr/bin/env bash
# Resolve the lock files again: hashes, no addresses. Needs uv in $BIN (a development dependency).
set -euo pipefail
cd "$(dirname "$0")/.."
compile() { "${BIN:-.venv/bin}/uv" pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header "$@"; }

# One resolution for Python 3.11 to 3.13 serves both the images and the local engine.
for target in cpu cuda trees-cpu trees-cuda; do
    compile --python-version 3.11 --python-platform x86_64-manylinux_2_28 "images/$target.in" --output-file "images/$target.lock"
done
compile --universal --python-version 3.11 pyproject.toml --group build --output-file requirements.lock
# Ray is 80 MB: nodes of a fleet and whoever drives them install it, and the tests.
compile --universal --python-version 3.11 pyproject.toml --extra fleet --group build --constraint requirements.lock --output-file fleet.lock
compile --universal --python-version 3.11 pyproject.toml --all-extras --group dev --constraint requirements.lock --output-file dev.lock
compile --universal --python-version 3.11 --group compare --output-file compare.lock
compile --universal --python-version 3.11 --group xprof --output-file xprof.lock
