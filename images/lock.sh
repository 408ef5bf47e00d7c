#!/usr/bin/env bash
# Update the lock files, with hashes and without URLs. Needs uv in $BIN (a development dependency).
set -euo pipefail
cd "$(dirname "$0")/.."
compile() { "${BIN:-.venv/bin}/uv" pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header "$@"; }

# Add wheel sizes for an architecture to a lock file, for the download progress bar.
add_sizes() {
    "${BIN:-.venv/bin}/uv" pip compile --quiet --no-deps --format pylock.toml --python-version 3.13 --python-platform "$2-manylinux_2_28" "$1" |
        "${BIN:-.venv/bin}/python" -c '
import sys, tomllib
from harness.images.wheels import Pin
from harness.images.wheels import is_wheel_of
for package in tomllib.load(sys.stdin.buffer)["packages"]:
    pin = Pin(name=package["name"], version=package["version"], sha256=frozenset())
    names = ((wheel["url"].rpartition("/")[2], wheel["size"]) for wheel in package["wheels"])
    size = next(size for name, size in names if is_wheel_of(name, pin, "3.13", sys.argv[1]))
    print(f"# {pin.name}: {size} bytes")' "$2" > "$1.sizes"
    cat "$1.sizes" >> "$1"
    rm "$1.sizes"
}

# One resolution for Python 3.11 to 3.13 serves both the images and the local engine.
for target in cpu cuda trees-cpu trees-cuda installer; do
    compile --python-version 3.11 --python-platform x86_64-manylinux_2_28 "images/$target.in" --output-file "images/$target.lock"
    add_sizes "images/$target.lock" x86_64
done
# The same versions on ARM.
for target in cpu trees-cpu; do
    sed 's/^tensorflow-cpu==/tensorflow==/' "images/$target.in" | compile --python-version 3.11 --python-platform aarch64-manylinux_2_28 \
        --constraint "images/$target.lock" - --output-file "images/$target-aarch64.lock"
    add_sizes "images/$target-aarch64.lock" aarch64
done
mkdir -p build
LOCK=1 images/base.sh build/base.tar
compile --universal --python-version 3.11 pyproject.toml --group build --output-file requirements.lock
# Ray is 80 MB, so only fleets and the tests install it.
compile --universal --python-version 3.11 pyproject.toml --extra fleet --group build --constraint requirements.lock --output-file fleet.lock
compile --universal --python-version 3.11 pyproject.toml --all-extras --group dev --constraint requirements.lock --output-file dev.lock
compile --universal --python-version 3.11 --group compare --output-file compare.lock
