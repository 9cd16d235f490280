"""Whether a dictionary is of these two vocabularies, and the right way round."""

from ..words import gold_standard, invert

# Share of the dictionary's words, and of the vocabulary's, below which the two have
# hardly anything to do with each other. A dictionary of other languages has names and
# numbers in common with any: 0.3 % where Chinese-English was given for Spanish-English.
# A large one of the right languages covers the vocabulary, a small one is covered.
_LEAST = 0.05


def looked_up(dictionary, names, vocabularies, convention):
    """The gold standard; a ValueError if it is empty."""
    gold = gold_standard(dictionary, *vocabularies, convention=convention)
    if len(gold):
        return gold
    other_way = gold_standard(invert(dictionary), *vocabularies, convention=convention)
    advice = "is it of other languages?"
    if len(other_way):
        advice = (
            f"the other way round there are {len(other_way):,}: --reverse-dictionary?"
        )
    raise ValueError(
        f"dictionary must have a pair whose words are in {names[0]} and {names[1]}, got"
        f" {len(dictionary)} source words and no such pair; {advice}"
    )


def doubts_of(dictionary, gold, source_words, target_words):
    """What to warn of: at most one line."""
    n_words = min(len(source_words), gold.convention.max_words or len(source_words))
    listed, known = len(gold) / gold.n_words, len(gold) / n_words
    if max(listed, known) >= _LEAST:
        return
    inverted = gold_standard(
        invert(dictionary), source_words, target_words, convention=gold.convention
    )
    share = (
        f"both words of a pair are in the vocabularies for {listed:.1%} of the"
        f" dictionary's words ({len(gold):,} of {gold.n_words:,})"
    )
    if len(inverted) > 2 * len(gold):
        yield (
            f"{share}, and for {len(inverted):,} the other way round:"
            " --reverse-dictionary?"
        )
    else:
        yield (
            f"{share}: is it of other languages, or the wrong way round"
            " (--reverse-dictionary)?"
        )
