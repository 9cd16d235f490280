from numpy import intp
from numpy.typing import NDArray

from ...utils.types import Float32Array

def parse_rows(
    text: bytes, start: int, values: Float32Array, words: NDArray[intp]
) -> tuple[int, int]: ...
