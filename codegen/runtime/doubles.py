"""Doubles as llama-server prints them: Grisu2 digits, exponents in printf's %g style."""

import struct
from functools import lru_cache

_MASK = (1 << 64) - 1
_HALF = 1 << 63
_FIRST_POWER, _POWER_STEP = -300, 8
_MIN_EXPONENT, _MAX_EXPONENT = -4, 15


def double_text(value: float) -> str:
    """The text nlohmann::json gives a double; `null` for NaN and the infinities.

    The digits are Grisu2's, which in about one double of a thousand are not the shortest
    that read back, so `repr` alone would not do.
    """
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if -1e15 < value < 1e15 and value == int(value):
        return repr(value)
    return _text(value)


@lru_cache(maxsize=8192)
def _text(value: float) -> str:
    sign = "-" if value < 0 else ""
    digits, exponent = _grisu2(abs(value))
    count = len(digits)
    point = count + exponent
    if count <= point <= _MAX_EXPONENT:
        return f"{sign}{digits}{'0' * (point - count)}.0"
    if 0 < point <= _MAX_EXPONENT:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _MIN_EXPONENT < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{sign}{mantissa}e{point - 1:+03d}"


def _cached_powers() -> list[tuple[int, int]]:
    """10^k for k = -300, -292, … 324, each as (f, e) with f * 2^e nearest, 2^63 <= f < 2^64."""
    powers = []
    for k in range(_FIRST_POWER, 325, _POWER_STEP):
        above, below = (10**k, 1) if k >= 0 else (1, 10**-k)
        e = above.bit_length() - below.bit_length() - 64
        while True:
            scaled = (above << -e, below) if e < 0 else (above, below << e)
            f = (2 * scaled[0] + scaled[1]) // (2 * scaled[1])
            if f >> 64:
                e += 1
            elif f < _HALF:
                e -= 1
            else:
                powers.append((f, e))
                break
    return powers


_POWERS = _cached_powers()


def _grisu2(value: float) -> tuple[str, int]:
    """(digits, exponent) with digits * 10^exponent reading back as `value`, which is > 0.

    Loitsch, "Printing floating-point numbers quickly and accurately with integers" (2010),
    with the decimal window of nlohmann::json: products have exponents from -60 to -32.
    """
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    biased, fraction = bits >> 52, bits & ((1 << 52) - 1)
    f, e = (fraction | 1 << 52, biased - 1075) if biased else (fraction, -1074)

    # The neighbours' midpoints, all three brought to the exponent of the normalized upper one.
    upper = 2 * f + 1
    shift = 64 - upper.bit_length()
    e_upper = e - 1 - shift
    upper <<= shift
    if fraction == 0 and biased > 1:
        lower = (4 * f - 1) << (e - 2 - e_upper)
    else:
        lower = (2 * f - 1) << (e - 1 - e_upper)
    middle = f << (e - e_upper)

    scale = -61 - e_upper
    k = scale * 78913 // (1 << 18) if scale > 0 else -(-scale * 78913 // (1 << 18))
    k += scale > 0
    index = (k - _FIRST_POWER + _POWER_STEP - 1) // _POWER_STEP
    c, e_c = _POWERS[index]
    exponent = -(_FIRST_POWER + index * _POWER_STEP)
    high = ((upper * c + _HALF) >> 64) - 1
    low = ((lower * c + _HALF) >> 64) + 1
    delta = high - low
    dist = high - ((middle * c + _HALF) >> 64)
    one = -(e_upper + e_c + 64)

    # A shorter text than repr's cannot read back, so the search for the last place starts there.
    place = _last_place(value) - exponent
    while place > 0:
        unit = 10**place << one
        digits, rest = divmod(high, unit)
        if rest <= delta:
            return str(_nearer(digits, dist, delta, rest, unit)), exponent + place
        place -= 1

    factor = 10**-place
    high, delta, dist = high * factor, delta * factor, dist * factor
    unit = 1 << one
    while True:
        rest = high & (unit - 1)
        if rest <= delta:
            return str(_nearer(high >> one, dist, delta, rest, unit)), exponent + place
        high, delta, dist = high * 10, delta * 10, dist * 10
        place -= 1


def _last_place(value: float) -> int:
    """The power of ten of the last significant digit in `repr(value)`."""
    mantissa, _, power = repr(value).partition("e")
    whole, _, decimals = mantissa.partition(".")
    if decimals in ("", "0"):
        return int(power or 0) + len(whole) - len(whole.rstrip("0"))
    return int(power or 0) - len(decimals)


def _nearer(digits: int, dist: int, delta: int, rest: int, unit: int) -> int:
    """`digits` lowered for as long as that brings them closer to the value."""
    while (
        rest < dist
        and delta - rest >= unit
        and (rest + unit < dist or dist - rest > rest + unit - dist)
    ):
        digits -= 1
        rest += unit
    return digits
