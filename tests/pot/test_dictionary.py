"""Properties of dictionaries; test_calls.py compares them with POT's."""

import numpy as np
import pytest
from helpers import pot_rows as rows
from helpers.pot_calls import ours, same
from helpers.pot_rows import dictionary


@pytest.mark.parametrize("name", [rows.UNMIXING, rows.FUSED_UNMIXING])
def test_points_without_mass_do_not_count(name):
    options = dictionary(name)
    expected = ours(name)(**options)
    options["p"] = np.append(options["p"], 0.0)
    options["C"] = np.pad(options["C"], (0, 1), constant_values=0.7)
    if "Y" in options:
        options["Y"] = np.append(options["Y"], [[3.0, 5.0]], axis=0)
    *found, T, loss = ours(name)(**options)
    same([*found, T[:-1], loss], expected)
    assert not T[-1].any()


@pytest.mark.parametrize("name", [rows.UNMIXING, rows.FUSED_UNMIXING])
def test_totals_need_not_be_one(name):
    options = dictionary(name)
    expected = ours(name)(**options)
    options |= {"p": 3 * options["p"], "q": 3 * rows.Q}
    if "Y" in options:  # features count once, structures twice
        options |= {"Y": 3**0.5 * options["Y"], "Ydict": 3**0.5 * rows.YDICT}
    w, *_, T, loss = ours(name)(**options)
    same((w, T / 3, loss / 9), (expected[0], *expected[-2:]))


def test_an_atom_is_unmixed_as_itself():
    order = np.random.default_rng(1).permutation(rows.NT)
    options = {
        "C": rows.CDICT[1][np.ix_(order, order)],
        "Y": rows.YDICT[1][order],
        "p": rows.Q[order],
    }
    w, *_, T, loss = ours(rows.FUSED_UNMIXING)(**dictionary(rows.FUSED_UNMIXING, **options))
    np.testing.assert_allclose(w, [0, 1, 0], atol=1e-9)
    np.testing.assert_allclose(T, np.diag(rows.Q)[order], atol=1e-9)
    assert loss == pytest.approx(0, abs=1e-9)


def test_losses_fall_and_the_best_epoch_is_returned(capsys):
    options = dictionary(rows.LEARNING, epochs=12, learning_rate=0.05)
    atoms, log = ours(rows.LEARNING)(**options)
    losses = log["loss_epochs"]
    assert min(losses) < 0.8 * losses[0]
    best = int(np.argmin(losses))
    options |= {"epochs": best + 1, "use_log": False, "verbose": True}
    found, log = ours(rows.LEARNING)(**options)
    same(found, atoms)
    assert log == {"loss_batches": [], "loss_epochs": []}
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == best + 1
    assert float(lines[-1].split()[-1]) == pytest.approx(losses[best])


def test_no_epochs_leave_the_first_atoms():
    atoms, _ = ours(rows.LEARNING)(**dictionary(rows.LEARNING, 0, rows.FIRST, epochs=0))
    same(atoms, np.maximum(rows.CDICT - 0.5, 0))
