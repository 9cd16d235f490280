"""Files of vectors for the command line: small, and with a known truth."""

N = 60


def write_vectors(path, words, vectors):
    lines = [f"{len(words)} {vectors.shape[1]}"]
    for word, row in zip(words, vectors.tolist(), strict=True):
        lines.append(" ".join([word, *map(repr, row)]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
