"""Searches judged by known matches: ``python -m benchmarks.search TABLE ...``.

Tables: ``families`` (some 640 problems, most with known matches, by family; ``--json FILE`` keeps
what every solve saw, ``--sizes 5`` takes every fifth, ``--sizes 5 2`` from the third on),
``confidence`` (how well the confidence of results is calibrated, from the same file), ``price``
(the default search in solves from the product plan, for problems of the list of 500 to 2000
points), ``starts`` (every start and ten seeds of the search), ``languages`` (ten pairs in six
variations of their rows, also from 300 known pairs; ``--only all`` are the files as they are),
``translations`` (how good they are, and what refinement adds), ``slices`` (slices of tissue that
overlap in part, beside the true match; ``--sizes 15`` for 15 x 15 spots in place of 30 x 30) and
``epsilon`` (accuracy over epsilon). Accuracy chooses nothing.
"""

from ..common import runner
from . import confidence, optima, overlaps

TABLES = {
    "families": confidence.families,
    "confidence": confidence.calibration,
    "price": optima.price,
    "starts": optima.starts,
    "languages": optima.languages,
    "translations": optima.translations,
    "slices": overlaps.slices,
    "epsilon": optima.epsilon,
}


def main(argv=None):
    shared = "rounds", "only", "sizes", "json"
    options = runner.parse(__spec__.name, __doc__, TABLES, *shared, argv=argv, rounds=3)
    runner.make_tables(options, TABLES, ("scikit-learn",))


if __name__ == "__main__":
    main()
