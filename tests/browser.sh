#!/usr/bin/env bash
# Make sure of a Chromium for the browser tests; does nothing when there is one.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do command -v "$name" >/dev/null && exit 0; done
sudo=; [ "$(id -u)" = 0 ] || sudo="sudo -n"
if command -v apt-get >/dev/null && { [ -z "$sudo" ] || $sudo true 2>/dev/null; }; then
    echo "Installing Chromium for the browser tests"
    $sudo apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -qy --no-install-recommends chromium fonts-dejavu-core poppler-utils >/dev/null
else
    echo "The browser tests need Chromium. Install it, or run: make quick" >&2
    exit 1
fi
