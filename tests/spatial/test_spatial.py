"""Slices in, plans and one frame out. Slices are simulated, but for PASTE's own."""

import warnings

import numpy as np
import pytest
from helpers.problems import anndata_of
from scipy import sparse
from scipy.spatial.distance import cdist

import gwfast
from gwfast.spatial import center_align, pairwise_align, stack_slices

ANGLE = np.deg2rad(70.0)
TURN = np.array([[np.cos(ANGLE), np.sin(ANGLE)], [-np.sin(ANGLE), np.cos(ANGLE)]])


def moved(spots):
    """Spots after a rigid motion."""
    return spots @ TURN + [30.0, -7.0]


def grid_of(width, height):
    """Spots on a grid of triangles, one apart."""
    rows, columns = np.mgrid[:height, :width]
    grid = np.stack([columns + 0.5 * (rows % 2), rows * np.sqrt(0.75)], axis=2)
    return grid.reshape(-1, 2)


def rates_of(spots, n_genes=30, depth=20.0, contrast=1.5, seed=0):
    """Smooth expression of places."""
    rng = np.random.default_rng(seed)
    waves = spots @ rng.normal(0, 0.35, (2, n_genes)) + rng.uniform(0, 6, n_genes)
    return depth * np.exp(contrast * np.sin(waves))


def counts_of(spots, seed, **options):
    return np.random.default_rng(seed).poisson(rates_of(spots, **options))


SPOTS = grid_of(9, 7)
COUNTS = counts_of(SPOTS, 1)
PAIR = SPOTS, COUNTS
OTHERS = moved(SPOTS), counts_of(SPOTS, 2)
FAR = 100 * OTHERS[0], OTHERS[1]
OVER = SPOTS * [1, -1]
GENES = np.array([f"gene{k}" for k in range(30)])
EYE = np.eye(63) / 63


@pytest.fixture(scope="module")
def found():
    return pairwise_align(PAIR, OTHERS)


def test_the_problem_is_that_of_paste(found):
    """Computed here, in its units."""
    x, y = (one + 0.01 for one in (COUNTS, OTHERS[1]))
    x, y = (one / one.sum(axis=1, keepdims=True) for one in (x, y))
    genes = (x[:, None] * np.log(x[:, None] / y)).sum(axis=2)
    plan, a, b = found.gw.plan, cdist(SPOTS, SPOTS), cdist(OTHERS[0], OTHERS[0])
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    space = rows @ a**2 @ rows + cols @ b**2 @ cols - 2 * np.vdot(a @ plan @ b, plan)
    assert found.objective == pytest.approx(0.9 * np.vdot(genes, plan) + 0.1 * space)
    assert found.blur == found.gw.epsilon == 0
    features = pairwise_align((SPOTS, x), (SPOTS, y), dissimilarity="euclidean", alpha=0)
    assert features.objective == pytest.approx(np.vdot(cdist(x, y), features.gw.plan))


def test_a_turned_copy_is_found_and_reflections_where_they_are_allowed(found):
    assert (found.gw.match() == np.arange(len(SPOTS))).mean() > 0.95
    motion = found.rigid()
    np.testing.assert_allclose(motion.rotation, TURN, atol=0.02)
    np.testing.assert_allclose(motion(SPOTS), OTHERS[0], atol=0.2)
    assert motion.angle == pytest.approx(70, abs=1) and not motion.is_reflection
    np.testing.assert_allclose(motion.inverse()(motion(SPOTS)), SPOTS, atol=1e-9)
    np.testing.assert_allclose(found.transform(), OTHERS[0], atol=1.5)
    np.testing.assert_allclose(found.inverse_transform(), SPOTS, atol=1.5)
    sides = np.where(SPOTS[:, 0] > 4, "right", "left")
    assert (found.transfer_labels(sides).labels == sides).mean() > 0.9
    found = pairwise_align(PAIR, (OVER, OTHERS[1]))
    motion = found.rigid(reflection=True)
    with pytest.warns(UserWarning, match="slice_a fits better"):
        assert motion.is_reflection and not found.rigid().is_reflection
    np.testing.assert_allclose(motion(SPOTS), OVER, atol=0.2)


def test_units_are_warned_of_unless_norm_makes_them_of_no_matter(found):
    near = 100 * SPOTS, COUNTS
    for first, options in ((near, {"init": "product"}), (PAIR, {})):
        far = pairwise_align(first, FAR, norm=True, **options)
        assert far.objective == pytest.approx(found.objective, rel=0.01)
    unequal = "slice_a, got 100 times"
    for first, blur, facts in (
        (PAIR, 0, unequal),
        (PAIR, 2, unequal),
        (near, 0, "alpha, got 100, .* 1e\\+04"),
    ):
        with pytest.warns(UserWarning, match=facts):
            pairwise_align(first, FAR, blur=blur, init="product")


@pytest.mark.parametrize(
    "blur, bend, alpha",
    [(0, 0.06, 0.1), (2.0, 0.0, 0.1), pytest.param(0, 0.06, 0.6, marks=pytest.mark.slow)],
)
def test_slices_that_overlap_in_part_are_found(blur, bend, alpha):
    """The search without features ends with 13 % right, with a large `alpha` with none."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(22.0)), -1).reshape(-1, 2)
    places = grid + rng.uniform(-0.3, 0.3, grid.shape)
    rates = rates_of(places, 60, 8, 1.2)
    a, b = np.flatnonzero(grid[:, 0] < 23), np.flatnonzero(grid[:, 0] >= 7)
    bent = places[b] + [[0.0, 1.0]] * np.sin(np.pi * places[b, :1] / 30) * 30 * bend
    first, second = ((places[a], rng.poisson(rates[a])), (moved(bent), rng.poisson(rates[b])))
    found = pairwise_align(first, second, overlap=0.68, blur=blur, alpha=alpha)
    masses = found.gw.coupling.marginals[0]
    has = masses > masses.max() / 2
    near = np.linalg.norm(places[a] - places[b][found.gw.match()], axis=1) < 2
    assert has.mean() == pytest.approx(0.68, abs=0.03) and near[has].mean() > 0.95
    assert found.gw.status == "converged" and found.gw.mass == pytest.approx(0.68, abs=1e-3)
    if not bend:
        np.testing.assert_allclose(found.rigid().rotation, TURN, atol=0.05)


def test_an_overlap_that_starts_disagree_about_is_uncertain():
    """Spots and counts at random: there is nothing to find."""
    rng = np.random.default_rng(0)
    slices = [(rng.uniform(0, 12, (150, 2)), rng.poisson(3.0, (150, 8))) for _ in "ab"]
    with pytest.warns(gwfast.ConvergenceWarning, match="other alpha"):
        found = pairwise_align(*slices, overlap=0.5)
    assert found.gw.status == "uncertain" and 0 < found.gw.confidence < 0.93


@pytest.mark.parametrize("dimensions, blur", [(2, 0), (2, 2), (3, 0)])
def test_starts_need_no_unit_and_know_reflections_and_masses(dimensions, blur):
    """Halves of a slab in common, turned over, with other masses and in other units."""
    rng = np.random.default_rng(1)
    sides = np.meshgrid(*map(np.arange, (18, 12, 3)[:dimensions]))
    places = np.stack(sides, axis=-1).reshape(-1, dimensions).astype(float)
    places += rng.uniform(-0.2, 0.2, places.shape)
    waves = places @ rng.normal(0, 0.4, (dimensions, 40)) + rng.uniform(0, 6, 40)
    rates = 20 * np.exp(1.5 * np.sin(waves))
    a, b = np.flatnonzero(places[:, 0] < 12), np.flatnonzero(places[:, 0] > 5.5)
    motion = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0]
    motion[:, 0] *= -np.linalg.det(motion)
    first = places[a], rng.poisson(rates[a])
    second = 50 + places[b] @ motion, rng.poisson(rates[b])
    p = rng.uniform(0.5, 1.5, len(a))
    p[:5] = 0.0
    match = 1.0 * (a[:, None] == b)
    how = dict(p=p / p.sum(), overlap=0.4, blur=blur, norm=True)
    known = pairwise_align(first, second, init=match, **how)
    for unit in (1.0, 300.0):
        slices = [(unit * spots, counts) for spots, counts in (first, second)]
        found = pairwise_align(*slices, **how)
        assert found.objective <= 1.01 * known.objective
        assert found.gw.converged and found.gw.confidence > 0.93
        turned = found.rigid(reflection=True)
        assert turned.is_reflection
        np.testing.assert_allclose(turned.rotation, motion, atol=0.1)


def test_too_much_overlap_is_remarked():
    grid = grid_of(20, 12)
    a, b = grid[grid[:, 0] < 13], grid[grid[:, 0] > 6.5]
    slices = (a, counts_of(a, 1)), (moved(b), counts_of(b, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
        found = pairwise_align(*slices, overlap=0.8)
    assert "overlap=0.8 forces spots to wrong places" in found.gw.advice
    assert "forces" not in pairwise_align(*slices, overlap=0.4).gw.advice


def test_both_methods_agree():
    """On a tissue of 225 spots, in units of neither."""
    spots = grid_of(15, 15)
    slices = (300 * spots, counts_of(spots, 1)), (300 * moved(spots), counts_of(spots, 2))
    exact = pairwise_align(*slices, norm=True, init="product")
    found = pairwise_align(*slices, blur=2)
    assert found.gw.epsilon == pytest.approx(0.1 * 2.0**2)
    assert found.rigid().angle == pytest.approx(exact.rigid().angle, abs=0.5)
    missed = [np.linalg.norm(x.transform() - slices[1][0], axis=1) / 300 for x in (exact, found)]
    assert np.mean(missed[1] < 2) > 0.98 and missed[1].mean() < missed[0].mean() + 0.5
    again = pairwise_align(*slices, blur=2, options=gwfast.SolverOptions(tier="tiled"))
    assert again.gw.coupling.form != "array"
    np.testing.assert_allclose(again.transform(), found.transform(), atol=30)


@pytest.mark.slow
@pytest.mark.parametrize("tier, atol", [("auto", 0.05), ("tiled", 0.05), ("neighbors", 0.1)])
def test_levels_lead_where_all_spots_do(tier, atol):
    spots = grid_of(60, 50)
    slices = (spots, counts_of(spots, 1)), (moved(spots), counts_of(spots, 2))
    n_neighbors = 232 if tier == "neighbors" else None
    options = gwfast.SolverOptions(tier=tier, n_neighbors=n_neighbors)
    found = pairwise_align(*slices, blur=2, options=options)
    assert [row.n_points for row in found.gw.candidates][-2:] == [1500, 3000]
    assert found.gw.status in ("converged", "uncertain") and found.gw.left_out < 0.01
    alone = pairwise_align(*slices, blur=2, init="product")
    assert found.objective == pytest.approx(alone.objective, rel=2e-3)
    np.testing.assert_allclose(found.transform(), alone.transform(), atol=atol)


def test_anndata_and_frames_are_read(found):
    """Take genes in common, layers and other representations, of anything like AnnData."""
    a = anndata_of(COUNTS, SPOTS, var_names=GENES)
    b = anndata_of(OTHERS[1][:, ::-1], OTHERS[0], var_names=GENES[::-1])
    aligned = [pairwise_align(a, b)]
    b.X = sparse.csr_matrix(np.hstack([b.X, np.ones((63, 1), dtype=int)]))
    b.var_names = np.append(b.var_names, "another")
    aligned.append(pairwise_align(a, b))
    for one in (a, b):
        one.layers["raw"], one.obsm["X_pca"], one.X = one.X, one.X, None
    aligned.append(pairwise_align(a, b, use_rep="raw"))
    b.obsm["X_pca"] = OTHERS[1]
    aligned.append(pairwise_align(a, b, use_rep="X_pca"))
    assert [one.objective for one in aligned] == pytest.approx([found.objective] * 4)
    # Frames go by their labels; nullable columns too, masses and tables in other orders.
    pandas = pytest.importorskip("pandas")
    names = [f"spot{k}" for k in range(63)]
    slices = [
        (pandas.DataFrame(spots, names).astype("Float64"), pandas.DataFrame(counts, names))
        for spots, counts in (PAIR, OTHERS)
    ]
    slices[1] = slices[1][0], slices[1][1].iloc[::-1].astype("Int64")
    p = pandas.Series(1 / 63, names[::-1], dtype="Float64")
    again = pairwise_align(*slices, p)
    assert again.objective == pytest.approx(found.objective)
    table = again.to_frame()
    assert table["source"].tolist() == names
    assert [*table.columns] == ["source", "target", "mass", "share"]
    with pytest.raises(ValueError, match=r"^p .* slice_a, got 'a'"):
        pairwise_align(*slices, p.set_axis(["a", *names[1:]]))


def test_stacks_are_in_the_frame_of_the_first(found, tmp_path):
    slices = [anndata_of(*PAIR[::-1]), OTHERS, moved(OTHERS[0])]
    stack = stack_slices(slices, [found, EYE])
    assert stack[0] is slices[0].obsm["spatial_aligned"]
    np.testing.assert_allclose(stack[1], SPOTS, atol=0.2)
    np.testing.assert_allclose(stack[2], stack[1], atol=1e-9)
    _, back = stack_slices([SPOTS, OVER], [EYE], reflection=True)
    with pytest.warns(UserWarning, match=r"slices\[1\] .* 3.46 without"):
        _, kept = stack_slices([SPOTS, OVER], [EYE])
    np.testing.assert_allclose(back, SPOTS, atol=1e-9)
    assert np.linalg.norm(kept - SPOTS) > 1
    # Spots in a line, and plans that match nothing, fit either way and say nothing.
    line, plan = SPOTS[:, :1] * [1.0, 0.5], np.random.default_rng(0).random((63, 63)) / 63**2
    stack_slices([line, line * [1, -1]], [EYE])
    stack_slices([SPOTS, OVER], [plan])
    stack_slices(slices, [found.gw, EYE], key_added=None)
    assert list(slices[0].obsm) == ["spatial", "spatial_aligned"]
    anndata = pytest.importorskip("anndata")
    a, b = (anndata.AnnData(x, obsm={"spatial": spots}) for spots, x in (PAIR, OTHERS))
    stack_slices([a, b], [pairwise_align(a, b)])
    b.write_h5ad(tmp_path / "b.h5ad")
    written = anndata.read_h5ad(tmp_path / "b.h5ad").obsm["spatial_aligned"]
    np.testing.assert_allclose(written, SPOTS, atol=0.2)


@pytest.mark.parametrize("kind", ["kl", "euclidean"])
def test_a_center_is_less_noisy_than_its_slices(kind):
    spots = grid_of(8, 6)
    rates = rates_of(spots)
    slices = [(spots, counts_of(spots, k, depth=3.0)) for k in range(3)]
    slices[1] = moved(slices[1][0]), slices[1][1]
    found = center_align(slices[0], slices, n_components=4, dissimilarity=kind)
    assert found.objectives[-1] < found.objectives[0] and len(found.alignments) == 3
    assert len(found.objectives) < 10  # at its tolerance
    assert found.loadings.min() >= 0 and found.programs.min() >= 0
    right, alone = (
        np.corrcoef(one.ravel(), rates.ravel())[0, 1] for one in (found.expression, slices[0][1])
    )
    assert right > max(0.93, alone + 0.03)
    weighted = center_align(slices[0], slices, n_components=4, weights=[1, 0, 0], max_rounds=1)
    assert weighted.objectives == (weighted.alignments[0].objective,)


def test_a_center_has_the_genes_that_all_slices_have():
    center, last = (anndata_of(x, spots, var_names=GENES) for spots, x in (PAIR, OTHERS))
    fewer = anndata_of(OTHERS[1][:, 3:28], OTHERS[0], var_names=GENES[3:28])
    with pytest.warns(UserWarning, match="up to 30; the 25 "):
        found = center_align(center, [last, fewer], n_components=3, max_rounds=1)
    assert found.expression.shape == (63, 25) and [*found.expression] == [*GENES[3:28]]
    few = OTHERS[0], OTHERS[1][:, 3:28]
    alone = center_align((SPOTS, COUNTS[:, 3:28]), [few, few], n_components=3, max_rounds=1)
    assert found.objectives == pytest.approx(alone.objectives)
    # Whichever slice has fewer genes.
    pairs = [pairwise_align(fewer, last), pairwise_align(last, fewer)]
    assert [len(found.a) for found in pairs] == [63, 63]


def test_it_tells_how_far_it_is_and_ends_in_time():
    told = []
    with pytest.warns(gwfast.ConvergenceWarning, match="time_limit"):
        late = center_align(
            PAIR,
            [PAIR, OTHERS],
            n_components=3,
            time_limit=1e-9,
            progress=lambda text, *_: told.append(text),
        )
        blurred = pairwise_align(PAIR, OTHERS, blur=2, time_limit=1e-9)
    assert told == [f"round 1 of 10 at most, slice {k} of 2" for k in (1, 2)]
    assert len(late.objectives) == 1
    assert {one.gw.status for one in (*late.alignments, blurred)} == {"time_limit"}


def test_the_slices_of_paste(shared_data):
    """POT's conditional gradient from the product plan ends at 1.7653296."""
    files = [np.load(shared_data / f"tissue/slice{k}.npz") for k in (1, 2)]
    slices = [(file["xy"], file["counts"]) for file in files]
    alone = pairwise_align(*slices, init="product")
    assert alone.objective == pytest.approx(1.7653296, rel=1e-6)
    found = pairwise_align(*slices)
    assert found.objective <= alone.objective * (1 + 1e-12)
    entropic = pairwise_align(*slices, blur=2)
    assert entropic.rigid().angle == pytest.approx(found.rigid().angle, abs=2)


def test_the_center_of_four_slices_is_no_worse_than_that_of_paste(shared_data):
    """PASTE's rounds, by POT and the factorization of scikit-learn, end at 1.19593."""
    files = [np.load(shared_data / f"tissue/slice{k}.npz") for k in (1, 2)]
    slices = [(file["xy"].astype(float), file["counts"].astype(float)) for file in files]
    rng = np.random.default_rng(0)
    for spots, counts in slices[:2]:
        kept = np.sort(rng.permutation(len(spots))[:240])
        a = rng.uniform(0, 6)
        turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
        thinned = rng.binomial(counts[kept].astype(int), 0.7).astype(float)
        slices.append((spots[kept] @ turn + 5, thinned))
    assert center_align(slices[0], slices).objectives[-1] <= 1.0001 * 1.19593
