"""Whose containers and processes they are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.engines.owner import current_owner, owner_has_ended

# Prints whether a process that /proc hides from another user has ended, and then one that there is not.
_HIDDEN = """
import os
from harness.engines.owner import current_owner, owner_has_ended
owner = current_owner()
if os.fork():
    os.wait()
else:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
    print(owner_has_ended(str(owner)), owner_has_ended(str(owner._replace(pid="4000000"))))
"""


def test_this_process_has_not_ended_and_an_earlier_one_with_its_id_has() -> None:
    owner = current_owner()
    assert not owner_has_ended(str(owner))
    assert owner_has_ended(str(owner._replace(started="1")))


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_process_that_this_user_may_not_see_has_not_ended() -> None:
    inside = ["sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "-"]
    command = ["unshare", "--pid", "--fork", "--mount", *inside, sys.executable, "-c", _HIDDEN]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "False True\n"
