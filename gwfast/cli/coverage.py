"""Whether a dictionary is of these two vocabularies, and the right way round."""

from ..words.evaluation import gold_standard, turned

# Share of the dictionary's words, and of the vocabulary's, below which the two have
# hardly anything to do with each other. Of Spanish and English words MUSE's lists of
# English and Chinese have 0.1 % and 0.9 %, of English and French 0.2 % and 4.2 %. A
# large list of the right languages covers the vocabulary, a small one is covered.
_LEAST = 0.05


def looked_up(dictionary, names, vocabularies, convention):
    """The gold standard, and a list of at most one warning; a ValueError if there is no
    pair in it.
    """
    gold = gold_standard(dictionary, *vocabularies, convention)
    n_turned = turned(dictionary, gold, *vocabularies)
    if not len(gold):
        advice = "is it of other languages?"
        if n_turned:
            advice = f"the other way round there are {n_turned:,}: --reverse-dictionary?"
        raise ValueError(
            f"dictionary must have a pair whose words are in {names[0]} and {names[1]},"
            f" got {len(dictionary)} source words and no such pair; {advice}"
        )
    share = (
        "both words of a pair are in the vocabularies for"
        f" {len(gold) / gold.n_words:.1%} of the dictionary's words"
        f" ({len(gold):,} of {gold.n_words:,})"
    )
    if n_turned:
        way = f", and for {n_turned:,} the other way round: --reverse-dictionary?"
        return gold, [share + way]
    n_words = min(len(vocabularies[0]), gold.convention.max_words or len(vocabularies[0]))
    if len(gold) < _LEAST * min(gold.n_words, n_words):
        doubt = ": is it of other languages, or the wrong way round"
        return gold, [f"{share}{doubt} (--reverse-dictionary)?"]
    return gold, []
