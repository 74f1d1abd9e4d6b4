"""Types of the arrays that private layers hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Chars = npt.NDArray[np.int8]
Octets = npt.NDArray[np.uint8]
Shorts = npt.NDArray[np.int16]
Longs = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Whole = npt.NDArray[np.int8] | npt.NDArray[np.int16]
