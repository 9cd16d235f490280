"""Files of word vectors.

`reading` recognizes the format and calls `text`, `binary` or `arrays` (NumPy, gensim). These take
decompressed bytes from `source`, and collect words and vectors in `rows`.
"""

from .reading import read_embeddings
from .writing import write_embeddings

__all__ = ["read_embeddings", "write_embeddings"]
