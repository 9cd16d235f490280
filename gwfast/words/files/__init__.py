"""Files of word vectors: a module for each format, and what they share.

`reading` finds out what a file is and hands it on, to `text`, `binary`, `arrays`
(NumPy) or `keyedvectors` (gensim); `source` gives them bytes, decompressed; `rows`
collects what they read by the rules of `gwfast.words.vocabulary`.
"""

from .reading import read_embeddings
from .writing import write_embeddings

__all__ = ["read_embeddings", "write_embeddings"]
