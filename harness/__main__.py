"""The program `tfbench`, also as `python -m harness`."""

import signal

# Until the imports are over, an interrupt ends the program without a traceback of them.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is not ignored
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from harness.cli import main

if __name__ == "__main__":
    main()
