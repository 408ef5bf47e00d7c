#!/usr/bin/env bash
# Install what the tests need from the distribution's packages: programs, and a Docker Engine, which is also
# started. Does nothing if all of it is available.
set -euo pipefail

declare -A package=(
    [chromium]=chromium            # the report in a real browser
    [pdftotext]=poppler-utils      # the report on paper
    [docker-compose]=docker-compose # the images as compose builds them
)
missing=()
for program in "${!package[@]}"; do
    PATH="$PATH:/usr/sbin" command -v "$program" >/dev/null || missing+=("${package[$program]}")
done

engine() {
    "$(dirname "$0")/../images/engine.sh" ||
        { echo "make test needs a Docker Engine, which could not be started (see above): run \`make quick\`." >&2; exit 1; }
}

[ ${#missing[@]} -gt 0 ] || { engine; exit 0; }

sudo=; [ "$(id -u)" = 0 ] || sudo="sudo -n"
if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! $sudo true 2>/dev/null; }; then
    echo "Some tests need: ${missing[*]}. Install them and run this again, or run: make quick" >&2
    exit 1
fi
echo "Installing for the tests: ${missing[*]}"
$sudo apt-get update -q >/dev/null
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" fonts-dejavu-core >/dev/null
engine
