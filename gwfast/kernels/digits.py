"""Integers in messages."""

import math


def shown(x: int) -> str:
    """Return an integer as messages show it; Python refuses to print thousands of digits."""
    digits = round(x.bit_length() * math.log10(2))
    return str(x) if digits < 100 else f"an integer of {digits} digits"
