"""ngram-simple: what followed the last time that the newest tokens stood in the text."""

from engine.speculation.search import find_last
from engine.speculation.settings import NgramSizes


class NgramSimple:
    """Keeps nothing: every guess searches the text anew, from its end."""

    def __init__(self, sizes: NgramSizes) -> None:
        self._n = sizes.size_n
        self._m = sizes.size_m

    def begin(self, id_slot: int, prompt: list[int]) -> None:
        """Nothing to prepare."""

    def draft(self, id_slot: int, tokens: list[int], last: int, limit: int) -> list[int]:
        """At least `size_n` tokens and at most `size_m`, or none."""
        n, m, length = self._n, self._m, len(tokens)
        if length <= n + m + 1:
            return []
        newest = [*tokens[length - n + 1 :], last]
        found = find_last(tokens, newest, above=0, highest=length - n - 1)
        if found is None:
            return []
        draft = tokens[found + n : found + n + m]
        return draft if len(draft) >= n else []

    def accepted(self, id_slot: int, n_accepted: int) -> None:
        """Nothing to learn."""
