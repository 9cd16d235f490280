"""Words: embeddings files, dictionaries and the scoring of translations."""

from .dictionaries import read_counts, read_dictionary, write_dictionary
from .embeddings import Embeddings, EmbeddingsFileError
from .evaluation import precision_at_k
from .files import read_embeddings, write_embeddings
from .sample import load_sample

__all__ = [
    "Embeddings",
    "EmbeddingsFileError",
    "load_sample",
    "precision_at_k",
    "read_counts",
    "read_dictionary",
    "read_embeddings",
    "write_dictionary",
    "write_embeddings",
]
