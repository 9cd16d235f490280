"""Words: embeddings files, dictionaries and the scoring of translations."""

from .dictionaries import (
    DictionaryFileError,
    invert,
    merge,
    read_counts,
    read_dictionary,
)
from .embeddings import (
    Embeddings,
    EmbeddingsFileError,
    read_embeddings,
)
from .evaluation import (
    GoldStandard,
    Precision,
    gold_standard,
    precision_at_k,
)
from .sample import load_sample

__all__ = [
    "DictionaryFileError",
    "Embeddings",
    "EmbeddingsFileError",
    "GoldStandard",
    "Precision",
    "gold_standard",
    "invert",
    "load_sample",
    "merge",
    "precision_at_k",
    "read_counts",
    "read_dictionary",
    "read_embeddings",
]
