from collections.abc import Callable

from dovetail.tensor import Quantization

def requantization_table(mine: Quantization, theirs: Quantization, is_signed: bool) -> bytes: ...
def function_table(
    function: Callable[[float], float], mine: Quantization, theirs: Quantization, is_signed: bool
) -> bytes: ...
