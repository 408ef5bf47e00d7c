#!/usr/bin/env bash
# Bootstrap a base image from distribution packages, for hosts without access to an image registry.
#   images/base.sh FILE.tar     write its root file system
#   images/base.sh NAME:TAG     import it into the engine, using the docker command
#   LOCK=1 images/base.sh FILE.tar   use the newest packages and write their versions to base.lock
# It replaces the slim Python image: Debian 13 with its Python 3.13.
# Signed packages come from the mirror that apt on this host uses, in the versions pinned by base.lock.
# Prints a warning for versions that the mirror no longer has. base.lock is of x86_64: on aarch64, packages that were
# rebuilt there have other versions.
set -euo pipefail
export LC_ALL=C

goal=${1:?usage: images/base.sh FILE.tar or NAME:TAG}
suite=trixie

fail() { echo "images/base.sh: $1" >&2; exit 1; }

case $(uname -m) in
    x86_64 | aarch64) ;;
    *) fail "only x86_64 and aarch64 are supported; TensorFlow's wheels in the locks are for them." ;;
esac
command -v apt-get >/dev/null || fail "bootstrapping a base image needs apt, which this host does not have. Name another base in images/Dockerfile (ARG BASE)."

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)

# Ubuntu does not install Debian's signing keys by default.
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages=()
command -v mmdebstrap >/dev/null || packages+=(mmdebstrap)
[ -e "$keyring" ] || packages+=(debian-archive-keyring)
# Without root, mmdebstrap maps a range of user ids.
[ "$(id -u)" = 0 ] || command -v newuidmap >/dev/null || packages+=(uidmap)
if [ "${#packages[@]}" != 0 ]; then
    [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null ||
        fail "${packages[*]} missing. Install with: sudo apt-get install ${packages[*]}"
    {
        "${as_root[@]}" apt-get update -q &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}"
    } >&2 || fail "${packages[*]} could not be installed; see above."
fi

# The Debian mirror configured on the host; on Ubuntu, mmdebstrap uses its default.
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)' 2>/dev/null |
    sed -n 's/^Debian|\(.*\/debian\/\?\)$/\1/p' | head -n 1)

case $goal in
    *.tar) work=$(mktemp -d "$(dirname "$goal")/.base-XXXXXX") ;;
    *) work=$(mktemp -d) ;;
esac
trap 'rm -rf "$work"' EXIT
lock=$(dirname "$0")/base.lock
[ -n "${LOCK:-}" ] || sed 's/\(.*\)=\(.*\)/Package: \1\nPin: version \2\nPin-Priority: 1001\n/' "$lock" > "$work/preferences"
touch "$work/preferences"
# Release files of mirror snapshots may have expired; signatures are still checked. Documentation and translations
# would add a third to the size. resolv.conf and hosts must exist: an engine that creates them to mount its own changes
# the timestamp of /etc.
# shellcheck disable=SC2016
SOURCE_DATE_EPOCH=0 mmdebstrap --quiet --variant=minbase --format=tar \
    --include=python3,ca-certificates \
    --aptopt='Acquire::Check-Valid-Until "false"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --setup-hook='mkdir -p "$1/etc/apt/preferences.d"; cp '"$work/preferences"' "$1/etc/apt/preferences.d/tfbench"' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/etc/apt/sources.list \
        "$1"/etc/apt/preferences.d/tfbench "$1"/var/cache/ldconfig/aux-cache; : > "$1/etc/resolv.conf"; : > "$1/etc/hosts"' \
    "$suite" "$work/base.tar" ${mirror:+"$mirror"} >&2 ||
    fail "mmdebstrap failed; see above."

tar --extract --to-stdout --file "$work/base.tar" ./var/lib/dpkg/status |
    sed -n 's/^Package: //p; s/^Version: /=/p' | sed 'N; s/\n//' | sort > "$work/base.lock"
if [ -n "${LOCK:-}" ]; then
    cp "$work/base.lock" "$lock"
else
    comm -13 "$lock" "$work/base.lock" | sed 's/^/images\/base.sh: base.lock has another version than /' >&2
fi
case $goal in
    *.tar) mv "$work/base.tar" "$goal" ;;
    *) docker import --change 'CMD ["python3"]' --message "tfbench base: Debian $suite" "$work/base.tar" "$goal" ;;
esac
