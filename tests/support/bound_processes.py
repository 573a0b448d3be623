"""Starts processes that end when this process ends, even if it is killed. Each has a pipe as standard input, which the
system closes at that moment.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["start_code", "start_script"]

# The time in which a process may end by itself; after that it is killed.
_END_SECONDS = 30
# The option of prctl(2) that sets which signal a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1
_WATCH = f"""
import ctypes, os, signal, sys, threading, time
def watch():
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep({_END_SECONDS})
    os._exit(1)
threading.Thread(target=watch, daemon=True).start()
if sys.platform == "linux":  # a process that is stopped goes on, and then notices
    ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, int(signal.SIGCONT))
"""
_RUN = """
import os, runpy, sys
del sys.argv[0]
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start_code(code: str, *arguments: str, **popen: Any) -> subprocess.Popen[str]:
    """Starts Python with this code, as `python -c` does. The started process gets SIGTERM when this process has ended,
    and when the returned object is deleted.
    """
    command = [sys.executable, "-c", _WATCH + code, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, **popen)


def start_script(script: Path, *arguments: str, **popen: Any) -> subprocess.Popen[str]:
    """Starts Python with this script. The process ends as that of `start_code` does."""
    return start_code(_RUN, str(script), *arguments, **popen)
