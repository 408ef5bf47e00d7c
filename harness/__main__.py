"""Run `tfbench` as `python -m harness`."""

import signal

# Until the imports are over, an interrupt ends the program without a traceback of them.
signal.signal(signal.SIGINT, signal.SIG_DFL)

from harness.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
