#!/usr/bin/env bash
# Install a Docker Engine from the distribution's own packages and start it: Debian and Ubuntu.
#   images/engine.sh            does nothing when an engine answers already
# The variables below are for hosts that already run an engine of another kind, and for tests:
#   TFBENCH_ENGINE_HOST   where it listens      (unix:///var/run/docker.sock)
#   TFBENCH_ENGINE_ROOT   where its data lies   (/var/lib/docker)
#   TFBENCH_ENGINE_STATE  its run-time state    (/var/run/docker)
#   TFBENCH_ENGINE_LOG    its log, where systemd does not keep it (/var/log/tfbench-dockerd.log)
set -euo pipefail

default_host=unix:///var/run/docker.sock
host=${TFBENCH_ENGINE_HOST:-$default_host}
root=${TFBENCH_ENGINE_ROOT:-/var/lib/docker}
state=${TFBENCH_ENGINE_STATE:-/var/run/docker}
log=${TFBENCH_ENGINE_LOG:-/var/log/tfbench-dockerd.log}
pidfile=$state.pid
socket=${host#unix://}

say() { echo "images/engine.sh: $1" >&2; }
fail() { say "$1"; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

# A request of the engine's own protocol: neither the docker command nor group membership is needed.
ping_engine() {
    if command -v curl >/dev/null; then
        "$@" curl -fsS --max-time 5 --unix-socket "$socket" http://engine/_ping 2>/dev/null | grep -q OK
    else
        "$@" env DOCKER_HOST="$host" docker version >/dev/null 2>&1
    fi
}

answers() { [ -S "$socket" ] && ping_engine "$@"; }

# Whatever DOCKER_HOST or the current context point at is what tfbench will use.
if [ -z "${TFBENCH_ENGINE_HOST:-}" ] && command -v docker >/dev/null && docker version >/dev/null 2>&1; then
    say "an engine answers already ($(docker version --format '{{.Server.Version}}')); nothing to do."
    exit 0
fi
if answers; then
    say "an engine answers already at $host; nothing to do."
    exit 0
fi
[ -z "${DOCKER_HOST:-}" ] || [ -n "${TFBENCH_ENGINE_HOST:-}" ] ||
    fail "DOCKER_HOST is set to $DOCKER_HOST, but no engine answers there. Correct or unset it."

if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "root is needed, and there is no sudo. Run this as root."
    if answers sudo; then
        say "an engine runs, but $(id -un) may not use it. Join its group: sudo usermod -aG docker $(id -un), then log in anew."
        exit 1
    fi
fi

if ! PATH=$PATH:/usr/sbin:/sbin command -v dockerd >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        fail "only Debian and Ubuntu are set up by this script. Elsewhere try: dnf install moby-engine (Fedora); zypper install docker (SUSE); pacman -S docker (Arch); apk add docker (Alpine); then start its service. Podman's socket serves as well: systemctl --user start podman.socket, then make bench. Without any engine: make bench ENGINE=local."
    fi
    say "installing docker.io from the distribution's packages"
    as_root apt-get update -q
    # iptables and the rest that Docker recommends is wanted only for networks, which trials do not have.
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends docker.io ||
        fail "docker.io could not be installed; see above."
fi
export PATH=$PATH:/usr/sbin:/sbin

wait_for_engine() {
    for _ in $(seq 1 60); do
        if answers "$@"; then return 0; fi
        sleep 0.5
    done
    return 1
}

under() { if [ "$(id -u)" != 0 ]; then echo sudo; fi; }

started() {
    say "an engine answers at $host."
    if [ "$(id -u)" != 0 ] && ! answers; then
        as_root usermod -aG docker "$(id -un)"
        say "$(id -un) was added to its group: log in anew (or run: newgrp docker), then go on."
    fi
    exit 0
}

if [ -d /run/systemd/system ] && [ "$host" = "$default_host" ] && command -v systemctl >/dev/null; then
    as_root systemctl enable --now docker.service || say "systemd could not start it; see: journalctl -u docker"
    # shellcheck disable=SC2046
    if wait_for_engine $(under); then started; fi
    fail "docker.service does not answer. See: journalctl -u docker"
fi

# Without systemd: our own daemon process, which outlives this shell.
# The pid of a dead one may since belong to another program, or to nobody but a first process that never
# reaps its children, as in many sandboxes.
running() {
    [ -e "$pidfile" ] || return 1
    local status
    status=/proc/$(cat "$pidfile")/status
    grep -q '^Name:[[:space:]]*dockerd$' "$status" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "$status"
}

# dockerd refuses to start over a pid that exists, whoever has it.
remove_stale_pid() {
    [ -e "$pidfile" ] || return 0
    if running; then
        fail "a dockerd runs already (process $(cat "$pidfile")) but does not answer at $host. See its log, or end it and try again."
    fi
    as_root rm -f "$pidfile"
}

start_daemon() {
    remove_stale_pid
    # shellcheck disable=SC2016
    as_root sh -c 'log=$1; shift; umask 077; setsid nohup "$@" >>"$log" 2>&1 </dev/null &' sh "$log" \
        dockerd --host="$host" --data-root="$root" --exec-root="$state" --pidfile="$pidfile" "$@"
    for try in $(seq 1 60); do
        # shellcheck disable=SC2046
        if answers $(under); then return 0; fi
        sleep 0.5
        # dockerd writes its pid file first of all and removes it when it gives up.
        if [ "$try" -gt 4 ] && ! running; then return 1; fi
    done
    return 1
}

stop_daemon() {
    if running; then
        as_root kill "$(cat "$pidfile")" 2>/dev/null || true
        for _ in $(seq 1 20); do running || break; sleep 0.5; done
    fi
}

if ! mountpoint -q /sys/fs/cgroup; then
    fail "/sys/fs/cgroup is not mounted, which every engine needs. In a container, run it privileged, or use: make bench ENGINE=local"
fi

if start_daemon; then started; fi
stop_daemon
# Sandboxes without the right to set up bridges or packet filters: trials have no network anyway.
say "the engine did not start with its usual network; trying without bridge and iptables"
if start_daemon --iptables=false --ip6tables=false --bridge=none; then started; fi
stop_daemon
tail -n 15 "$log" >&2 || true
fail "the engine does not start; its log is $log (the end is above). Without any engine: make bench ENGINE=local"
