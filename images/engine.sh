#!/usr/bin/env bash
# Install a Docker Engine from the distribution's packages and start it, on Debian and Ubuntu.
#   images/engine.sh            does nothing if an engine is already running
# The variables below are for hosts that already run another engine, and for tests:
#   TFBENCH_ENGINE_HOST   socket to listen on   (unix:///var/run/docker.sock)
#   TFBENCH_ENGINE_ROOT   data directory        (/var/lib/docker)
#   TFBENCH_ENGINE_STATE  run-time state        (/var/run/docker)
#   TFBENCH_ENGINE_LOG    log file, without systemd (/var/log/tfbench-dockerd.log)
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

# Uses the HTTP API, so that the docker command is not needed.
ping_engine() {
    if command -v curl >/dev/null; then
        "$@" curl -fsS --max-time 5 --unix-socket "$socket" http://engine/_ping 2>/dev/null | grep -q OK
    else
        "$@" env DOCKER_HOST="$host" docker version >/dev/null 2>&1
    fi
}

answers() { [ -S "$socket" ] && ping_engine "$@"; }

# Also finds the engine of DOCKER_HOST or of the current docker context, such as a rootless one.
if [ -z "${TFBENCH_ENGINE_HOST:-}" ] && command -v docker >/dev/null && docker version >/dev/null 2>&1; then
    say "an engine is already running ($(docker version --format '{{.Server.Version}}')); nothing to do."
    exit 0
fi
[ -n "${TFBENCH_ENGINE_HOST:-}" ] || [ "${DOCKER_HOST:-$host}" = "$host" ] ||
    fail "DOCKER_HOST is set to $DOCKER_HOST, but no engine answers there. Correct or unset it."
if answers; then
    say "an engine is already running at $host; nothing to do."
    exit 0
fi

if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "this needs root, and sudo is not installed. Run it as root."
    if answers sudo; then
        say "an engine is running, but $(id -un) may not use it. Try: sudo usermod -aG docker $(id -un), then log in again."
        exit 1
    fi
fi

if ! PATH=$PATH:/usr/sbin:/sbin command -v dockerd >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        fail "this script supports only Debian and Ubuntu. Elsewhere try: dnf install moby-engine (Fedora); zypper install docker (SUSE); pacman -S docker (Arch); apk add docker (Alpine); then start its service. Without any engine: make bench ENGINE=local."
    fi
    say "installing docker.io from the distribution's packages"
    as_root apt-get update -q
    # Docker recommends iptables and other packages for networking, which trials do not use.
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
        fail "$(id -un) was added to the docker group: log in again (or run: newgrp docker), then continue."
    fi
    exit 0
}

if [ -d /run/systemd/system ] && [ "$host" = "$default_host" ] && command -v systemctl >/dev/null; then
    as_root systemctl enable --now docker.service || say "systemd could not start it; see: journalctl -u docker"
    # shellcheck disable=SC2046
    if wait_for_engine $(under); then started; fi
    fail "docker.service does not answer. See: journalctl -u docker"
fi

# Without systemd: start a daemon that outlives this shell.
# The pid of a dead daemon may have been reused, or be a zombie that the container's init does not reap.
running() {
    [ -e "$pidfile" ] || return 1
    local status
    status=/proc/$(cat "$pidfile")/status
    grep -q '^Name:[[:space:]]*dockerd$' "$status" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "$status"
}

# dockerd refuses to start if the pid in its pid file exists, even as another program.
remove_stale_pid() {
    [ -e "$pidfile" ] || return 0
    if running; then
        fail "dockerd is already running (process $(cat "$pidfile")) but does not answer at $host. See its log, or stop it and try again."
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
        # dockerd writes its pid file first and removes it when it fails.
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
# Some sandboxes do not allow bridges or packet filters. Trials have no network anyway.
say "the engine did not start with its usual network; trying without bridge and iptables"
if start_daemon --iptables=false --ip6tables=false --bridge=none; then started; fi
stop_daemon
tail -n 15 "$log" >&2 || true
fail "the engine does not start; its log is $log (the end is above). Without any engine: make bench ENGINE=local"
