"""Doubles as llama-server prints them: Grisu2 digits, exponents in printf's %g style."""

from functools import cache, lru_cache
from math import frexp, isfinite, ldexp

_HALF = 1 << 63
_HIDDEN_BIT = 1 << 52
_LEAST_EXPONENT = -1074
_FIRST_POWER, _LAST_POWER, _POWER_STEP = -300, 324, 8
_MIN_POINT, _MAX_POINT = -4, 15
_TEN = [10**n for n in range(40)]


def double_text(value: float) -> str:
    """The text nlohmann::json gives a double; `null` for NaN and the infinities.

    The digits are Grisu2's, which in about one double of a thousand are not the shortest
    that read back, so `repr` alone would not do.
    """
    if not isfinite(value):
        return "null"
    if -1e15 < value < 1e15 and value == int(value):
        return repr(value)
    return _text(value)


@lru_cache(maxsize=512)
def _text(value: float) -> str:
    shortest = repr(value)
    mantissa, _, power = shortest.partition("e")
    whole, _, decimals = mantissa.partition(".")
    shown = whole + decimals
    place = int(power or 0) - len(decimals)
    if decimals in ("", "0"):
        shown = whole.rstrip("0")
        place = int(power or 0) + len(whole) - len(shown)
    number, place = _grisu2(abs(value), place)
    if not power and number == abs(int(shown)) and -1e15 < value < 1e15:
        return shortest
    sign, digits = "-" if value < 0 else "", str(number)
    count = len(digits)
    point = count + place
    if count <= point <= _MAX_POINT:
        return f"{sign}{digits}{'0' * (point - count)}.0"
    if 0 < point <= _MAX_POINT:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if _MIN_POINT < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    mantissa = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{sign}{mantissa}e{point - 1:+03d}"


def _grisu2(value: float, place: int) -> tuple[int, int]:
    """(digits, exponent) with digits * 10^exponent reading back as `value`, which is > 0.

    Loitsch, "Printing floating-point numbers quickly and accurately with integers" (2010),
    with the decimal window of nlohmann::json. `place` is the power of ten of the last digit
    of the shortest text that reads back: Grisu2's last digit is there or further right.
    """
    fraction, e = frexp(value)
    f, e = int(ldexp(fraction, 53)), e - 53
    if e < _LEAST_EXPONENT:
        f, e = f >> (_LEAST_EXPONENT - e), _LEAST_EXPONENT

    # The value and the midpoints to its neighbours, times a power of ten, on 64 bits.
    shift = 63 - f.bit_length()
    c, one, exponent = _scale(e - 1 - shift)
    middle = (f * c << (shift + 1)) + _HALF
    above = below = c << shift
    if f == _HIDDEN_BIT and e > _LEAST_EXPONENT:
        below >>= 1
    high = ((middle + above) >> 64) - 1
    delta = high - ((middle - below) >> 64) - 1
    dist = high - (middle >> 64)

    place -= exponent
    while place > 0:
        unit = _TEN[place] << one
        digits, rest = divmod(high, unit)
        if rest <= delta:
            return _nearer(digits, dist, delta, rest, unit), exponent + place
        place -= 1
    factor = _TEN[-place]
    high, delta, dist = high * factor, delta * factor, dist * factor
    unit = 1 << one
    while True:
        rest = high & (unit - 1)
        if rest <= delta:
            return _nearer(high >> one, dist, delta, rest, unit), exponent + place
        high, delta, dist = high * 10, delta * 10, dist * 10
        place -= 1


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


@cache
def _scale(e: int) -> tuple[int, int, int]:
    """For values 64-bit * 2^e: the power of ten to multiply by, what follows from it.

    That is its 64-bit significand, the binary places the product has after its point (32 to
    60), and the negated exponent of ten.
    """
    wanted = -61 - e
    k = -(-wanted * 78913 >> 18) if wanted <= 0 else (wanted * 78913 >> 18) + 1  # ceil, log10(2)
    k += -(k - _FIRST_POWER) % _POWER_STEP
    above, below = (10**k, 1) if k >= 0 else (1, 10**-k)
    e_c = above.bit_length() - below.bit_length() - 64
    while True:
        over, under = (above << -e_c, below) if e_c < 0 else (above, below << e_c)
        c = (2 * over + under) // (2 * under)
        if _HALF <= c < 2 * _HALF:
            return c, -(e + e_c + 64), -k
        e_c += 1 if c >= _HALF else -1
