"""The first process of each trial: run the command, reap orphans, kill everything when the harness is gone.

The harness holds the other end of standard input and writes a line after the start. End of file, or no line,
means that it was killed or wants the trial to end. In a container this is process 1, whose end kills all
others; on the host it adopts the command's descendants and kills them.

Run as source by the image's Python (3.10 or newer) with only the standard library; CPUS is a comma-separated
list or "":

    python3 -I -S -c SOURCE CPUS COMMAND...
"""

import os
import resource
import select
import signal
import sys
import time

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
# If the harness is killed during the start, the container may start anyway, and its input never ends.
STARTED_S = 30.0
STOPS = (signal.SIGTERM, signal.SIGINT)
# The last line of the log of a trial that ends itself.
GONE = "tfbench: the connection to the harness has ended, and this trial with it"


def main(cpus: str, command: list[str]) -> None:
    """Run `command` until it or standard input ends; exit with its status."""
    in_container = os.getpid() == 1
    if cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
    if not in_container:
        _prctl(PR_SET_CHILD_SUBREAPER, 1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_write, False)
    signal.set_wakeup_fd(wakeup_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Signals are blocked until there is a child to forward them to.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    child = os.fork()
    if child == 0:
        _exec(command, in_container)
    for number in STOPS:
        signal.signal(number, lambda number, _: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    deadline, started = time.monotonic() + STARTED_S, False
    while True:
        timeout = None if started else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([0, wakeup_read], [], [], timeout)
        if not ready:
            _exit(signal.SIGKILL, in_container)
        if wakeup_read in ready:
            os.read(wakeup_read, 4096)
            status = _reap(child)
            if status is not None:
                _exit(status, in_container)
        if 0 in ready:
            started = True
            if not os.read(0, 4096):
                _say_gone()
                _exit(signal.SIGKILL, in_container)


def _say_gone() -> None:
    try:
        os.set_blocking(2, False)
        os.write(2, f"\n{GONE}\n".encode())
    except OSError:  # nobody reads it: that must not delay the end
        pass


def _exec(command: list[str], in_container: bool) -> None:
    for number in (signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    if not in_container:
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        os.write(2, f"tfbench: cannot run {command[0]}: {error.strerror}\n".encode())
    os._exit(127)  # a shell's exit code for a command that is not found


def _reap(child: int) -> "int | None":
    """Reap all ended processes; return the wait status of `child` if it has ended."""
    result = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return result
        if pid == 0:
            return result
        if pid == child:
            result = status


def _exit(status: int, in_container: bool) -> None:
    """Kill all descendants and exit with the wait status `status`."""
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if in_container:
        os._exit(128 + number if number else os.WEXITSTATUS(status))
    while _kill_children():
        pass
    if number:
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _kill_children() -> bool:
    """Kill and reap all children, whose children become ours; return False if there are none."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    children = [pid for pid in pids if _parent(pid) == os.getpid()]
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return bool(children)


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            # State and parent follow the name in parentheses, which may contain anything.
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _prctl(option: int, value: int) -> None:
    # Slow to import, and not needed in containers.
    import ctypes  # noqa: PLC0415

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
