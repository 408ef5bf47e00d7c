"""Run drivers and code in forks of a process that has imported TensorFlow.

The import takes longer than most tests. TensorFlow's runtime starts with the first operation, so each fork
has its own. Each input line is JSON, ["driver", arguments, log] or ["code", text, log]; each output line is
an exit code.
"""

import faulthandler
import gc
import json
import os
import sys
from typing import Any

from workloads.driver import __main__ as driver
from workloads.driver import tensorflow_task  # noqa: F401 - imports TensorFlow

# A trial that hangs ends with the stacks of its threads in the log.
LIMIT_S = 300
# Twice a trial, the probes of the host take as long as a short script; no test reads their rates.
driver.PROBE_PART_S = 0.001


def main() -> None:
    gc.freeze()  # each collection in a fork would go through all of TensorFlow's objects
    for line in sys.stdin:
        kind, what, log = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(kind, what, log)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run(kind: str, what: Any, log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for descriptor, target in enumerate((os.open(os.devnull, os.O_RDONLY), file, file)):
        os.dup2(target, descriptor)
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    code = 1
    try:
        if kind == "driver":
            code = driver.main(what)
        else:
            exec(what, {"__name__": "__main__"})
            code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:  # prints the traceback like Python
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
