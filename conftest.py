"""What all tests share: none finds the verdicts of another, or of this user, and none pays for probing what it is not about.

A shell starts its background jobs with Ctrl-C ignored; tests that are about it must find it as a program in front does.
"""

import atexit
import os
import shutil
import signal
import tempfile

_CACHE = tempfile.mkdtemp(prefix="dovetail-tests-")
atexit.register(shutil.rmtree, _CACHE, True)
os.environ["DOVETAIL_CACHE_DIR"] = _CACHE
os.environ.setdefault("DOVETAIL_PROBE", "off")
signal.signal(signal.SIGINT, signal.default_int_handler)
