"""Parts of texts and arrays."""

from handlers.jinja.arguments import Args
from handlers.jinja.errors import TemplateError
from handlers.jinja.values import Value, as_int


def _sliced(items: Value, start: int, stop: int, step: int) -> list[int]:
    """The indices of a slice; with a negative step, -1 stops before the first."""
    size = len(items)
    if step > 0:
        start = max(size + start, 0) if start < 0 else min(start, size)
        stop = max(size + stop, 0) if stop < 0 else min(stop, size)
    else:
        start = max(size + start, 0) if start < 0 else min(start, size - 1)
        stop = max(size + stop, -1) if stop < -1 else min(stop, size - 1)
    return [index for index in range(start, stop, step) if 0 <= index < size]


def slice(args: Args) -> Value:
    """What `a[b:c:d]` calls."""
    args.check_count(1, 4)
    args.check_types("string" if isinstance(args.at(0), bytes) else "array", "int")
    numbers = [as_int(item) for item in args.items[1:]]
    # Only `[a:b]` gives all three: the filter's own arguments are never enough.
    if len(numbers) < 3:
        raise TemplateError("Undefined is not an int value")
    start, stop, step = numbers
    if step == 0:
        raise TemplateError("slice step cannot be zero")
    items = args.at(0)
    indices = _sliced(items, start, stop, step)
    if isinstance(items, bytes):
        return bytes(items[index] for index in indices)
    made = [items[index] for index in indices]
    return tuple(made) if isinstance(items, tuple) else made
