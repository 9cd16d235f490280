"""Slices in, plans and one frame out. Slices are simulated, but for PASTE's own."""

import numpy as np
import pytest
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


def rates_of(spots, n_genes=30, seed=0):
    """Smooth expression of places."""
    rng = np.random.default_rng(seed)
    waves = spots @ rng.normal(0, 0.35, (2, n_genes)) + rng.uniform(0, 6, n_genes)
    return np.exp(1.5 * np.sin(waves))


def counts_of(spots, seed, depth=20.0):
    return np.random.default_rng(seed).poisson(depth * rates_of(spots))


class Fake:
    """As much of AnnData as is asked for."""

    def __init__(self, spots, x, genes=None):
        self.X, self.obs, self.uns, self.layers = x, {}, {}, {}
        self.obsm = {} if spots is None else {"spatial": spots}
        if genes is not None:
            self.var_names = genes


SPOTS = grid_of(9, 7)
COUNTS = counts_of(SPOTS, 1)
OTHERS = moved(SPOTS), counts_of(SPOTS, 2)
PAIR = SPOTS, COUNTS
FAR = 100 * OTHERS[0], OTHERS[1]


@pytest.fixture(scope="module")
def found():
    return pairwise_align((SPOTS, COUNTS), OTHERS)


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
    best = np.vdot(cdist(x, y), features.gw.plan)
    assert features.objective == pytest.approx(best)


def test_a_turned_copy_is_found(found):
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


def test_reflections_are_taken_where_they_are_allowed():
    over = SPOTS * [1, -1]
    found = pairwise_align((SPOTS, COUNTS), (over, OTHERS[1]))
    motion = found.rigid(reflection=True)
    with pytest.warns(UserWarning, match="slice_a fits better turned over"):
        assert motion.is_reflection and not found.rigid().is_reflection
    np.testing.assert_allclose(motion(SPOTS), over, atol=0.2)


@pytest.mark.parametrize("unit, options", [(100, {"init": "product"}), (1, {})])
def test_norm_makes_units_of_no_matter(found, unit, options):
    far = pairwise_align((unit * SPOTS, COUNTS), FAR, norm=True, **options)
    assert far.objective == pytest.approx(found.objective, rel=0.01)


@pytest.mark.parametrize("blur", [0, 1.0])
def test_what_one_slice_lacks_gets_no_mass(blur):
    """Each slice has two thirds of a tissue, half of which both have."""
    spots = grid_of(15, 7)
    left, right = spots[:, 0] < 10, spots[:, 0] >= 5
    slices = (
        (moved(spots[one]), counts_of(spots[one], 3 + k, 60.0))
        for k, one in enumerate((left, right))
    )
    found = pairwise_align(*slices, overlap=0.5, blur=blur)
    assert found.gw.mass == pytest.approx(0.5, abs=1e-3)
    rows, cols = found.gw.coupling.marginals
    alone = spots[left][:, 0] < 4, spots[right][:, 0] > 10.5
    for sums, lonely in zip((rows, cols), alone, strict=True):
        assert sums[lonely].sum() < 0.05
    # Turned alike, with the same parts where they were.
    np.testing.assert_allclose(found.rigid().rotation, np.eye(2), atol=0.05)
    np.testing.assert_allclose(found.rigid().shift, 0, atol=1.5)


@pytest.mark.parametrize("blur", [0, 2.0])
@pytest.mark.parametrize("bend", [0.0, 0.06])
@pytest.mark.parametrize("alpha", [0.1, pytest.param(0.6, marks=pytest.mark.slow)])
def test_slices_that_overlap_in_part_are_found(blur, bend, alpha):
    """The search without features ends with 13 % right, with a large `alpha` with none."""
    if alpha > 0.1 and blur:
        pytest.skip("entropy makes a wrong plan the lowest there, and the status says so")
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.arange(30.0), np.arange(22.0)), -1).reshape(-1, 2)
    places = grid + rng.uniform(-0.3, 0.3, grid.shape)
    waves = places @ rng.normal(0, 0.35, (2, 60)) + rng.uniform(0, 6, 60)
    rates = 8 * np.exp(1.2 * np.sin(waves))
    a, b = np.flatnonzero(grid[:, 0] < 23), np.flatnonzero(grid[:, 0] >= 7)
    bent = places[b] + [[0.0, 1.0]] * np.sin(np.pi * places[b, :1] / 30) * 30 * bend
    first, second = ((places[a], rng.poisson(rates[a])), (moved(bent), rng.poisson(rates[b])))
    found = pairwise_align(first, second, overlap=0.68, blur=blur, alpha=alpha)
    masses = found.gw.coupling.marginals[0]
    has = masses > masses.max() / 2
    near = np.linalg.norm(places[a] - places[b][found.gw.match()], axis=1) < 2
    assert has.mean() == pytest.approx(0.68, abs=0.03) and near[has].mean() > 0.95
    assert found.gw.status == "converged"


@pytest.mark.parametrize("options", [{}, {"blur": 2, "alpha": 0.5}])
def test_an_overlap_that_starts_disagree_about_is_uncertain(options):
    """Spots and counts at random: there is nothing to find."""
    rng = np.random.default_rng(0)
    slices = [(rng.uniform(0, 17, (300, 2)), rng.poisson(3.0, (300, 8))) for _ in "ab"]
    with pytest.warns(gwfast.ConvergenceWarning, match="compare other alpha"):
        found = pairwise_align(*slices, overlap=0.5, **options)
    assert found.gw.status == "uncertain" and len(found.gw.candidates) == 3


def test_both_methods_agree():
    """On a tissue of 400 spots, in units of neither."""
    spots = grid_of(20, 20)
    a, b = counts_of(spots, 1), counts_of(spots, 2)
    given = (300 * spots, a), (300 * moved(spots), b)
    exact = pairwise_align(*given, norm=True, init="product")
    found = pairwise_align(*given, blur=2)
    assert found.gw.epsilon == pytest.approx(0.1 * 2.0**2)
    assert found.rigid().angle == pytest.approx(exact.rigid().angle, abs=0.5)
    missed = [np.linalg.norm(one.transform() - given[1][0], axis=1) / 300 for one in (exact, found)]
    assert np.mean(missed[1] < 2) > 0.98 and missed[1].mean() < missed[0].mean() + 0.5
    again = pairwise_align(*given, blur=2, options=gwfast.SolverOptions(tier="tiled"))
    assert again.gw.coupling.form != "array"
    np.testing.assert_allclose(again.transform(), found.transform(), atol=30)


@pytest.mark.slow
@pytest.mark.parametrize("tier, atol", [("auto", 0.05), ("tiled", 0.05), ("neighbors", 0.1)])
def test_levels_lead_where_all_spots_do(tier, atol):
    spots = grid_of(60, 50)
    slices = (spots, counts_of(spots, 1)), (moved(spots), counts_of(spots, 2))
    kept = {"n_neighbors": 232} if tier == "neighbors" else {}
    options = gwfast.SolverOptions(tier=tier, **kept)
    found = pairwise_align(*slices, blur=2, options=options)
    assert [row.n_points for row in found.gw.candidates][-2:] == [1500, 3000]
    assert found.gw.status in ("converged", "uncertain") and found.gw.left_out < 0.01
    alone = pairwise_align(*slices, blur=2, init="product")
    assert found.objective == pytest.approx(alone.objective, rel=2e-3)
    np.testing.assert_allclose(found.transform(), alone.transform(), atol=atol)


@pytest.mark.parametrize("spots, plan", [
    (SPOTS[:, :1] * [1.0, 0.5], np.eye(63) / 63),
    (SPOTS, np.random.default_rng(0).random((63, 63)) / 63**2),
], ids=["in a line", "matching nothing"])  # fmt: skip
def test_slices_that_fit_either_way_say_nothing(spots, plan):
    stack_slices([spots, spots * [1, -1]], [plan])


@pytest.mark.parametrize("slices, blur, message", [
    ((PAIR, FAR), 0, "units of slice_a, got 100 times its size"),
    ((PAIR, FAR), 2, "units of slice_a, got 100 times its size"),
    (((100 * SPOTS, COUNTS), FAR), 0, "about 1 apart for alpha, got 100, .* 1e\\+04"),
])  # fmt: skip
def test_slices_in_other_units_are_warned_of(slices, blur, message):
    with pytest.warns(UserWarning, match=message):
        pairwise_align(*slices, blur=blur, init="product")


def test_stacks_are_in_the_frame_of_the_first(found):
    third = moved(OTHERS[0])
    given = [Fake(SPOTS, COUNTS), OTHERS, third]
    plan = np.eye(len(SPOTS)) / len(SPOTS)
    stack = stack_slices(given, [found, plan])
    assert stack[0] is given[0].obsm["spatial_aligned"]
    np.testing.assert_allclose(stack[1], SPOTS, atol=0.2)
    np.testing.assert_allclose(stack[2], stack[1], atol=1e-9)
    over = SPOTS * [1, -1]
    _, back = stack_slices([SPOTS, over], [plan], reflection=True)
    with pytest.warns(UserWarning, match=r"slices\[1\] fits better.* by 3.46 without"):
        _, kept = stack_slices([SPOTS, over], [plan])
    np.testing.assert_allclose(back, SPOTS, atol=1e-9)
    assert np.linalg.norm(kept - SPOTS) > 1
    stack_slices(given, [found.gw, plan], key_added=None)
    assert list(given[0].obsm) == ["spatial", "spatial_aligned"]


def test_anndata_is_read(found):
    """Or what looks like it: genes in common, layers, other representations."""
    names = np.array([f"gene{k}" for k in range(30)])
    a, b = Fake(SPOTS, COUNTS, names), Fake(OTHERS[0], OTHERS[1][:, ::-1], names[::-1])
    assert pairwise_align(a, b).objective == pytest.approx(found.objective)
    b.X = sparse.csr_matrix(np.hstack([b.X, np.ones((63, 1), dtype=int)]))
    b.var_names = np.append(b.var_names, "another")
    assert pairwise_align(a, b).objective == pytest.approx(found.objective)
    for one in (a, b):
        one.layers["raw"], one.obsm["X_pca"], one.X = one.X, one.X, None
    assert pairwise_align(a, b, use_rep="raw").objective == pytest.approx(found.objective)
    b.obsm["X_pca"] = OTHERS[1]
    assert pairwise_align(a, b, use_rep="X_pca").objective == pytest.approx(found.objective)


def test_frames_go_by_their_labels(found):
    """Nullable columns too; masses and tables in other orders."""
    pandas = pytest.importorskip("pandas")
    names = [f"spot{k}" for k in range(63)]
    slices = [
        (pandas.DataFrame(spots, names).astype("Float64"), pandas.DataFrame(counts, names))
        for spots, counts in ((SPOTS, COUNTS), OTHERS)
    ]
    slices[1] = slices[1][0], slices[1][1].iloc[::-1].astype("Int64")
    p = pandas.Series(1 / 63, names[::-1], dtype="Float64")
    again = pairwise_align(*slices, p)
    assert again.objective == pytest.approx(found.objective)
    assert again.to_frame()["source"].tolist() == names
    with pytest.raises(ValueError, match=r"^p must have the labels of slice_a, got 'a'"):
        pairwise_align(*slices, p.set_axis(["a", *names[1:]]))


def test_slices_of_anndata_are_written_to(found, tmp_path):
    anndata = pytest.importorskip("anndata")
    a, b = (anndata.AnnData(counts.astype(np.float32)) for counts in (COUNTS, OTHERS[1]))
    a.obsm["spatial"], b.obsm["spatial"] = SPOTS, OTHERS[0]
    again = pairwise_align(a, b)
    assert again.objective == pytest.approx(found.objective)
    assert list(again.to_frame().columns) == ["source", "target", "mass", "share"]
    stack_slices([a, b], [again])
    b.write_h5ad(tmp_path / "b.h5ad")
    written = anndata.read_h5ad(tmp_path / "b.h5ad").obsm["spatial_aligned"]
    np.testing.assert_allclose(written, SPOTS, atol=0.2)


def test_a_center_has_the_genes_that_all_slices_have():
    names = np.array([f"gene{k}" for k in range(30)])
    center, last = Fake(SPOTS, COUNTS, names), Fake(*OTHERS, names)
    fewer = Fake(OTHERS[0], OTHERS[1][:, 3:28], names[3:28])
    with pytest.warns(UserWarning, match="got up to 30; the 25 that all have"):
        found = center_align(center, [last, fewer, center], n_components=3)
    assert found.expression.shape == (63, 25)
    pairs = [(SPOTS, COUNTS[:, 3:28]), (OTHERS[0], OTHERS[1][:, 3:28])]
    alone = center_align(pairs[0], [pairs[1], pairs[1], pairs[0]], n_components=3)
    assert found.objectives == pytest.approx(alone.objectives)
    # Whichever slice has fewer genes, at whichever end.
    for a, b in ((fewer, last), (last, fewer), (Fake(SPOTS, COUNTS[:, :9], names[:9]), last)):
        assert len(pairwise_align(a, b).a) == 63


def test_a_center_tells_how_far_it_is_and_ends_in_time():
    told = []
    given = PAIR, [PAIR, OTHERS]
    center_align(*given, n_components=3, progress=lambda text, *_: told.append(text))
    assert told[:2] == [f"round 1 of 10 at most, slice {k} of 2" for k in (1, 2)]
    with pytest.warns(gwfast.ConvergenceWarning, match="larger time_limit"):
        late = center_align(*given, n_components=3, time_limit=1e-9)
    assert len(late.objectives) == 1
    assert {one.gw.status for one in late.alignments} == {"time_limit"}
    with pytest.raises(ValueError, match="time_limit must be positive"):
        center_align(*given, time_limit=-1)


@pytest.mark.parametrize("kind", ["kl", "euclidean"])
def test_a_center_is_less_noisy_than_its_slices(kind):
    spots = grid_of(8, 6)
    rates = rates_of(spots)
    slices = [(spots, counts_of(spots, k, 3.0)) for k in range(3)]
    slices[1] = moved(slices[1][0]), slices[1][1]
    found = center_align(slices[0], slices, n_components=4, dissimilarity=kind)
    assert found.objectives[-1] < found.objectives[0]
    assert found.loadings.min() >= 0 and found.programs.min() >= 0
    assert len(found.alignments) == 3
    right, alone = (
        np.corrcoef(one.ravel(), rates.ravel())[0, 1] for one in (found.expression, slices[0][1])
    )
    assert right > max(0.93, alone + 0.03)
    weighted = center_align(slices[0], slices, n_components=4, weights=[1, 0, 0], max_rounds=1)
    assert weighted.objectives == (weighted.alignments[0].objective,)


@pytest.mark.parametrize("blur", [0, 2])
def test_it_ends_in_time(blur):
    with pytest.warns(gwfast.ConvergenceWarning, match="larger time_limit"):
        late = pairwise_align(PAIR, OTHERS, blur=blur, time_limit=1e-9)
    assert late.gw.status == "time_limit"


BARE = Fake(None, COUNTS)
A_TO = "abcdefghijklmnopqrstuvwxyzäöüå"
NO_SPOTS = r"must have spots: slice_a\.obsm has \[\], not 'spatial'"


@pytest.mark.parametrize("a, b, options, error, message", [
    (BARE, PAIR, {}, ValueError, NO_SPOTS),
    (PAIR, SPOTS, {}, TypeError, "slice_b must be an AnnData object or a pair"),
    (PAIR, (SPOTS[:9], COUNTS), {}, ValueError, r"slice_b\[1\] must have a row for"),
    (PAIR, (SPOTS, COUNTS[:, 1:]), {}, ValueError, r"must have the columns of .*, 30"),
    (PAIR, (np.ones((63, 2)), COUNTS), {}, ValueError, "two places at least"),
    (PAIR, (SPOTS[:, :1], COUNTS), {}, ValueError, "dimensions of slice_a, 2, got 1"),
    (PAIR, (SPOTS, COUNTS - 5.0), {}, ValueError, "dissimilarity='euclidean'"),
    (PAIR, (SPOTS, COUNTS * np.nan), {}, ValueError, r"slice_b\[1\] must be finite"),
    (PAIR, PAIR, {"use_rep": "X_pca"}, ValueError, "where slice_a is no AnnData"),
    (Fake(*PAIR), PAIR, {"use_rep": "X_pca"}, ValueError, "got 'X_pca'"),
    (Fake(*PAIR), PAIR, {"use_rep": "raw"}, ValueError, r"slice_a\.layers, \[\], got"),
    (Fake(SPOTS, None), PAIR, {}, ValueError, r"slice_a\.X must be there"),
    (Fake(*PAIR, A_TO), Fake(*PAIR, A_TO.upper()), {}, ValueError, "in common"),
    (Fake(*PAIR, A_TO), Fake(*PAIR, A_TO[:-2] + "ab"), {}, ValueError,
     r"var_names of slice_b\.X must be unique, got 2 names more than once, such as a, b"),
    (PAIR, PAIR, {"dissimilarity": "l1"}, ValueError, "dissimilarity must be one of"),
    (PAIR, PAIR, {"blur": "fast"}, ValueError, "blur must be one of"),
    (PAIR, PAIR, {"alpha": 1.5}, ValueError, "alpha must be at most 1"),
    (PAIR, PAIR, {"blur": 2, "alpha": 0}, ValueError, "alpha must be"),
    (PAIR, PAIR, {"blur": -1}, ValueError, "blur must be"),
    (PAIR, PAIR, {"options": gwfast.SolverOptions(method="ppa")}, ValueError, "options.method"),
    (PAIR, PAIR, {"overlap": 70}, ValueError, "overlap must be from 0 to 1, got 70"),
])  # fmt: skip
def test_what_does_not_fit_is_named(a, b, options, error, message):
    with pytest.raises(error, match=message):
        pairwise_align(a, b, **options)


@pytest.mark.parametrize("call, message", [
    (lambda: stack_slices([SPOTS], []), "one fewer than slices"),
    (lambda: stack_slices([SPOTS, SPOTS], [np.eye(3)]), r"shape \(63, 63\), got"),
    (lambda: stack_slices([SPOTS, SPOTS], [np.zeros((63, 63))]), "must have mass"),
    (lambda: center_align(PAIR, []), "slices must not be empty"),
    (lambda: center_align((SPOTS, COUNTS - 9), [PAIR]), "must not be negative"),
])  # fmt: skip
def test_what_does_not_fit_a_stack_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_slices_of_paste(shared_data):
    """Of their 1000 genes that vary most. POT's conditional gradient from the product
    plan ends at 1.7653296."""
    slices = [
        (one["xy"], one["counts"])
        for one in (np.load(shared_data / f"tissue/slice{k}.npz") for k in (1, 2))
    ]
    alone = pairwise_align(*slices, init="product")
    assert alone.objective == pytest.approx(1.7653296, rel=1e-6)
    found = pairwise_align(*slices)
    assert found.objective <= alone.objective * (1 + 1e-12)
    entropic = pairwise_align(*slices, blur=2)
    assert entropic.rigid().angle == pytest.approx(found.rigid().angle, abs=2)
