"""POT's own functions by name, while `patching` has swapped them; else empty."""

from collections.abc import Callable
from typing import Any

originals: dict[str, Callable[..., Any]] = {}
