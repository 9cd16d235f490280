"""Objective and accuracy after every outer iteration."""

import gwfast
from gwfast.plot import plot_dynamics

from ..common.pairs import translations
from . import published
from .files import MUSE, percent, print_table, read


def run(options, _):
    """Print and draw the course of a solve for each pair and epsilon."""
    for direction in options.pairs or ("en-fr", "en-ru"):
        # The training fold has frequent words, which take part in the transport.
        data = read(options.data, MUSE, direction, options, "train", options.n_words)
        if data is None:
            continue
        x, y, dictionary = data
        right = translations(dictionary, x.words, y.words)
        histories, accuracies = {}, {}
        for epsilon in options.epsilon:
            label = f"epsilon {epsilon}"
            accuracies[label] = []
            histories[label] = trace(x, y, right, epsilon, accuracies[label], options)
        rows = {}
        for label, history in histories.items():
            for step, share in zip(history, accuracies[label], strict=True):
                text = f"{step.gw_cost:.5f} {percent(share):>5}"
                rows.setdefault(str(step.iteration), {})[label] = text
        title = f"{direction}: gw_cost, and P@1 of the plan in percent"
        print_table(title, list(histories), rows.items())
        path = options.output / f"dynamics-{direction}.png"
        plot_dynamics(histories, accuracy_history=accuracies, path=path)
    print(published.DYNAMICS)


def trace(x, y, right, epsilon, accuracy, options):
    """Return the history of a solve; append the accuracy of each iteration to a list."""

    def score(step):
        best = step.coupling.topk(1, list(right)).indices[:, 0].tolist()
        hits = sum(at in right[row] for row, at in zip(right, best, strict=True))
        accuracy.append(hits / len(right))

    result = gwfast.align(
        x.vectors,
        y.vectors,
        epsilon=epsilon,
        init="profile",
        seed=options.seed,
        n_threads=options.threads,
        callback=score,
    )
    return result.gw.history
