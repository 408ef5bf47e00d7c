#!/usr/bin/env bash
# Make sure of the programs that some tests need, by the distribution's packages; does nothing when all
# are there.
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
[ ${#missing[@]} -gt 0 ] || exit 0

sudo=; [ "$(id -u)" = 0 ] || sudo="sudo -n"
if ! command -v apt-get >/dev/null || { [ -n "$sudo" ] && ! $sudo true 2>/dev/null; }; then
    echo "Some tests need: ${missing[*]}. Install them and run this again, or run: make quick" >&2
    exit 1
fi
echo "Installing for the tests: ${missing[*]}"
$sudo apt-get update -q >/dev/null
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" fonts-dejavu-core >/dev/null
