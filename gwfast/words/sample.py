"""The bundled sample: Spanish and French words of old novels."""

from importlib.resources import as_file, files

import numpy as np

from .dictionaries import read_dictionary
from .embeddings import Embeddings


def load_sample() -> tuple[Embeddings, Embeddings, dict[str, set[str]]]:
    """Load the bundled Spanish and French embeddings and their word list.

    Returns
    -------
    source, target : Embeddings
        2500 Spanish and 2500 French words, 200 columns.
    dictionary : dict of str to set of str
        French translations of 396 of the Spanish words.

    Notes
    -----
    ``gwfast/data/README.md`` tells where they come from.

    Examples
    --------
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> len(spanish), french.vectors.shape, dictionary["un"]
    (2500, (2500, 200), {'un'})
    """
    folder = files("gwfast") / "data"
    with (folder / "eltec_es_fr.npz").open("rb") as stream:
        with np.load(stream, allow_pickle=False) as arrays:
            source, target = (
                Embeddings(
                    tuple(arrays[f"{language}_words"].tolist()),
                    arrays[f"{language}_rows"] * arrays[f"{language}_scales"][:, None],
                )
                for language in ("es", "fr")
            )
    with as_file(folder / "es-fr.tsv") as path:
        dictionary = read_dictionary(path)
    return source, target, dictionary
