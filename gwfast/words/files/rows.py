"""Rows that come one after another, in a buffer that grows in place."""

from itertools import repeat

import numpy as np

from ...utils.archives import LEAST_ROW_BYTES, refuse_more
from ..embeddings import finish, no_words, usable_rows
from ..vocabulary import Vocabulary


class Rows:
    """Distinct words and their vectors.

    `max_rows` is how many there can be, for which memory is set aside at once. Where
    that is not known, None, the buffer grows by an eighth: `ndarray.resize`
    reallocates, which moves no data for large buffers on Linux.
    """

    def __init__(self, n_columns, max_rows, options, budget):
        self.budget = budget
        self.vocabulary = Vocabulary(options)
        max_rows = min(max_rows or 0, self.vocabulary.room)
        self.vectors = np.empty((max_rows, n_columns), dtype=np.float32)
        self.n_read = 0

    @property
    def full(self):
        return self.vocabulary.room == 0

    def extend(self, words, values):
        """Take the rows whose word is to be kept and, where others are skipped, whose
        values can be used; where a row is refused, with a ValueError, `n_read` is how
        many came before."""
        if self.n_read > self.budget // LEAST_ROW_BYTES:
            raise refuse_more(self.budget)
        start, kept = len(self.vocabulary.words), []
        skips = self.vocabulary.options.skips
        usable = usable_rows(values) if skips else repeat(True)
        for word, good in zip(words, usable, strict=False):
            row = self.vocabulary.add(word) if good else self.vocabulary.refuse()
            kept.append(row)
            self.n_read += 1
        stop = len(self.vocabulary.words)
        if stop > len(self.vectors):
            self._resize(stop + stop // 8 + 1024)
        self.vectors[start:stop] = values if all(kept) else values[kept]

    def refuse(self, reason):
        """Skip a row that cannot be used, or raise `BadRow`."""
        self.vocabulary.refuse(reason)
        self.n_read += 1

    def finish(self):
        """The embeddings; of no more memory than they need."""
        n_rows = len(self.vocabulary.words)
        if not n_rows:
            raise no_words(self.vocabulary)
        if n_rows < len(self.vectors):
            self._resize(n_rows)
        return finish(self.vocabulary, self.vectors)

    def _resize(self, n_rows):
        self.vectors.resize((n_rows, self.vectors.shape[1]), refcheck=False)
