"""Whether a dictionary is of these two vocabularies, and the right way round."""

from ..words import gold_standard, invert

# Share of the dictionary's words, and of the vocabulary's, below which the two have
# hardly anything to do with each other. Of Spanish and English words MUSE's lists of
# English and Chinese have 0.1 % and 0.9 %, of English and French 0.2 % and 4.2 %. A
# large list of the right languages covers the vocabulary, a small one is covered.
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
    share = (
        "both words of a pair are in the vocabularies for"
        f" {len(gold) / gold.n_words:.1%} of the dictionary's words"
        f" ({len(gold):,} of {gold.n_words:,})"
    )
    # Words that are spelt alike in both languages are there either way.
    other_way = gold_standard(
        invert(dictionary), source_words, target_words, convention=gold.convention
    )
    if len(other_way) > 2 * len(gold):
        yield (
            f"{share}, and for {len(other_way):,} the other way round:"
            " --reverse-dictionary?"
        )
        return
    n_words = min(len(source_words), gold.convention.max_words or len(source_words))
    if len(gold) < _LEAST * min(gold.n_words, n_words):
        yield (
            f"{share}: is it of other languages, or the wrong way round"
            " (--reverse-dictionary)?"
        )
