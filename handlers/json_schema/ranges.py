"""Integers between two bounds, digit by digit."""

from __future__ import annotations

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1
_DIGITS = 16  # most digits of an integer without a bound


def integer_range(least: int, most: int) -> str:
    """Alternatives that match the integers from `least` to `most`; int64's ends are no bounds.

    Without a bound integers have at most 16 digits. Raises ValueError if neither is a bound.
    """
    parts: list[str] = []
    _between(_int64(least), _int64(most), parts, _DIGITS, leads=True)
    return "".join(parts)


def _int64(value: int) -> int:
    return (value - LOWEST) % (1 << 64) + LOWEST


def _digit(low: str, high: str) -> str:
    return f"[{low}]" if low == high else f"[{low}-{high}]"


def _digits(least: int, most: int) -> str:
    if least == most:
        return "[0-9]" if least == 1 else f"[0-9]{{{least}}}"
    return f"[0-9]{{{least},{most}}}"


def _shifted(digit: str, by: int) -> str:
    return chr(ord(digit) + by)


def _between(least: int, most: int, out: list[str], room: int, *, leads: bool) -> None:
    """Write the range; at most `room` digits, whose first one `leads` the number or doesn't."""
    if least != LOWEST and most != HIGHEST:
        _bounded(least, most, out, room)
    elif least != LOWEST:
        _at_least(least, out, room, leads)
    elif most != HIGHEST:
        _at_most(most, out, room, leads)
    else:
        raise ValueError("At least one of min_value or max_value must be set")


def _bounded(least: int, most: int, out: list[str], room: int) -> None:
    if least < 0:
        out.append('"-" (')
        if most < 0:
            _between(_int64(-most), _int64(-least), out, room, leads=True)
            out.append(")")
            return
        _between(0, _int64(-least), out, room, leads=True)
        out.append(") | ")
        least = 0
    low, high = str(least), str(most)
    for length in range(len(low), len(high)):
        _same_length(low, "9" * length, out)
        low = "1" + "0" * length
        out.append(" | ")
    _same_length(low, high, out)


def _same_length(low: str, high: str, out: list[str]) -> None:
    """Numbers of as many digits as both have; what they begin with alike is a literal."""
    common = 0
    while common < min(len(low), len(high)) and low[common] == high[common]:
        common += 1
    if common:
        out.append(f'"{low[:common]}"')
    if common == min(len(low), len(high)):
        return
    if common:
        out.append(" ")
    first, last = low[common], high[common]
    low_rest, high_rest = low[common + 1 :], high[common + 1 :]
    count = len(low_rest)
    if not count:
        out.append(f"[{first}-{last}]")
        return
    zeros, nines = "0" * count, "9" * count
    done = False
    out.append("(")
    if low_rest == zeros:
        out.append(f"{_digit(first, _shifted(last, -1))} {_digits(count, count)}")
    else:
        out.append(f"[{first}] (")
        _same_length(low_rest, nines, out)
        out.append(")")
        if ord(first) < ord(last) - 1:
            done = high_rest == nines
            between = _digit(_shifted(first, 1), last if done else _shifted(last, -1))
            out.append(f" | {between} {_digits(count, count)}")
    if not done:
        out.append(f" | {_digit(last, last)} ")
        _same_length(zeros, high_rest, out)
    out.append(")")


def _at_least(least: int, out: list[str], room: int, leads: bool) -> None:
    less = max(room - 1, 1)
    if least < 0:
        out.append('"-" (')
        _between(LOWEST, _int64(-least), out, room, leads=False)
        out.append(f") | [0] | [1-9] {_digits(0, room - 1)}")
    elif least == 0:
        out.append(f"[0] | [1-9] {_digits(0, less)}" if leads else _digits(1, room))
    elif least <= 9:
        lowest = "1" if leads else "0"
        if str(least) > lowest:
            out.append(f"{_digit(lowest, str(least - 1))} {_digits(1, less)} | ")
        out.append(f"{_digit(str(least), '9')} {_digits(0, less)}")
    else:
        first, rest = str(least)[0], str(least)[1:]
        if first > "1":
            lower = _digit("1" if leads else "0", _shifted(first, -1))
            out.append(f"{lower} {_digits(len(rest) + 1, less)} | ")
        out.append(f"{_digit(first, first)} (")
        _between(int(rest), HIGHEST, out, less, leads=False)
        out.append(")")
        if first < "9":
            out.append(f" | {_digit(_shifted(first, 1), '9')} {_digits(len(rest), less)}")


def _at_most(most: int, out: list[str], room: int, leads: bool) -> None:
    if most < 0:
        out.append('"-" (')
        _between(_int64(-most), HIGHEST, out, room, leads=False)
        out.append(")")
        return
    if leads:
        out.append(f'"-" [1-9] {_digits(0, max(room - 1, 1))} | ')
    _between(0, most, out, room, leads=True)
