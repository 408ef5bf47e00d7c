#!/usr/bin/env bash
# Bootstrap a base image out of distribution packages, for hosts that no image registry answers.
#   images/base.sh TAG
# It holds what the slim Python image holds as far as tfbench needs it: Debian 13 and its Python 3.13
# with venv. Packages and their signatures come from the mirror that this host's apt is set up with.
set -euo pipefail

tag=${1:?usage: images/base.sh TAG}
suite=trixie

fail() { echo "images/base.sh: $1" >&2; exit 1; }

command -v apt-get >/dev/null || fail "no image registry answers and this host has no apt to bootstrap from. Pull or load a base image yourself and name it with --base."
if ! command -v mmdebstrap >/dev/null; then
    [ "$(id -u)" = 0 ] || fail "mmdebstrap is missing. Install it with: sudo apt-get install mmdebstrap"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends mmdebstrap; } >&2 ||
        fail "mmdebstrap could not be installed; see above."
fi

# The host's own Debian mirror, whatever its name; an Ubuntu host leaves the choice to mmdebstrap.
mirror=$(apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)' 2>/dev/null | sed -n 's/^Debian|\(.*\/debian\/\?\)$/\1/p' | head -n 1)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=0 mmdebstrap --quiet --variant=minbase \
    --include=python3,python3-venv,ca-certificates \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/etc/apt/sources.list "$1"/etc/resolv.conf' \
    "$suite" "$work/base.tar" ${mirror:+"$mirror"} >&2 ||
    fail "mmdebstrap failed; see above. If it cannot reach a mirror, name a base image with --base."
docker import --change 'CMD ["python3"]' --message "tfbench base: Debian $suite" "$work/base.tar" "$tag"
