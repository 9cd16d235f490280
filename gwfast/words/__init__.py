"""Words: embeddings files, dictionaries and the scoring of translations."""

from .dictionaries import (
    DictionaryFileError,
    invert,
    merge,
    read_counts,
    read_dictionary,
    write_dictionary,
)
from .embeddings import Embeddings, EmbeddingsFileError, as_embeddings
from .evaluation import (
    CONVENTIONS,
    Convention,
    GoldStandard,
    Precision,
    evaluate,
    gold_standard,
    precision_at_k,
)
from .files import read_embeddings, write_embeddings
from .sample import load_sample

__all__ = [
    "CONVENTIONS",
    "Convention",
    "DictionaryFileError",
    "Embeddings",
    "EmbeddingsFileError",
    "GoldStandard",
    "Precision",
    "as_embeddings",
    "evaluate",
    "gold_standard",
    "invert",
    "load_sample",
    "merge",
    "precision_at_k",
    "read_counts",
    "read_dictionary",
    "read_embeddings",
    "write_dictionary",
    "write_embeddings",
]
