"""A script for `mypy` alone; types without a public name are imported from inside."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import gwfast
from gwfast import distributed, gradients, plot, pot, singlecell, spatial, words
from gwfast.results.coupling import Coupling
from gwfast.results.pairwise import PairwiseResult
from gwfast.results.records import OuterStep
from gwfast.results.result import LabelTransfer, SinkhornResult
from gwfast.results.status import Status
from gwfast.results.tables import Candidates, Translations
from gwfast.solvers.verification import Verification

Floats = NDArray[np.floating[Any]]
rng = np.random.default_rng(0)
x, y = rng.standard_normal((50, 5)), rng.standard_normal((60, 4))

result = gwfast.align(x, y, metric="cosine", epsilon="auto", n_words=40, refine=3)
assert_type(result, gwfast.Alignment)
assert_type(result.gw, gwfast.GWResult)
assert_type(result.plan, Floats)
assert_type(result.mapping, NDArray[np.float32])
assert_type(result.match(), NDArray[np.int64])
assert_type(result.translate([0, 1], method="csls", k=3), Translations)
assert_type(result.translate("a").words, list[list[str]] | None)
assert_type(result.refine(2).refinement[0].n_pairs, int)
assert_type(gwfast.procrustes(x, x), NDArray[np.float32])
assert_type(gwfast.nearest_neighbors(x, x, method="nn").scores, Floats)
gwfast.align(x, y, metric="cosin")  # type: ignore[arg-type]
gwfast.align(x, y, normalize=("centre",))  # type: ignore[arg-type]
gwfast.align(x, y, n_word=3)  # type: ignore[call-arg]
gwfast.align(x, y, epsilon="2%")
gwfast.align(x, y, epsilon=b"2%")  # type: ignore[arg-type]
result.translate(method="nns")  # type: ignore[arg-type]
assert_type(gwfast.Alignment.load("es-fr.npz"), gwfast.Alignment)

model = gwfast.GromovWassersteinAligner(n_words=40).fit(x, y)
assert_type(model, gwfast.GromovWassersteinAligner)
assert_type(model.transform(x), NDArray[np.float32])


def stop_early(step: OuterStep) -> bool:
    return step.gw_cost < 0.1


cloud = gwfast.PointCloud(x, "sqeuclidean").scaled_by("mean")
costs = gwfast.cosine_similarity(y)
partial, epsilon = gwfast.Partial(0.5), gwfast.Epsilon(relative=0.02)
gw = gwfast.gromov_wasserstein(cloud, costs, epsilon=epsilon, marginals=partial)
gwfast.gromov_wasserstein(
    cloud, costs, memory_limit="2GB", callback=stop_early, progress=print, init="profile"
)
assert_type(gw.plan, Floats)
assert_type((gw.gw_cost, gw.converged, gw.status), tuple[float, bool, Status])
assert_type((gw.mass, gw.confidence, gw.left_out, gw.n_iter), tuple[float, float, float, int])
assert_type(gw.candidates, Candidates)
assert_type(gw.marginals.p, NDArray[np.float64])
assert_type(gw.match(), NDArray[np.int64])
assert_type((gw.transform(y), gw.inverse_transform(x)), tuple[Floats, Floats])
assert_type(gw.transfer_labels(["a"] * 60), LabelTransfer)
assert_type(gwfast.GWResult.load("result.npz"), gwfast.GWResult)
gw.save("result.npz")
assert_type((gw.history[0].change, gw.candidates[0].start), tuple[float, str])
assert_type(gw.coupling, Coupling)
assert_type(gw.coupling.topk(3).indices, NDArray[np.int64])
assert_type(gw.coupling.marginals[0], NDArray[np.float64])
assert_type(gw.potentials[0], NDArray[np.float64])
gwfast.gromov_wasserstein(cloud, costs, loss="huber")  # type: ignore[arg-type]
gwfast.gromov_wasserstein(cloud, costs, options=gwfast.SolverOptions(tier="all"))  # type: ignore[arg-type]
gwfast.PointCloud(x, "euclid")  # type: ignore[arg-type]

problem = gwfast.QuadraticProblem(cloud, costs, loss="square")
assert_type(gwfast.tune_epsilon(problem), gwfast.GWResult)
assert_type(gwfast.verify(problem, gw), Verification)
assert_type(gwfast.verify(problem, gw).stationarity.value, float)
assert_type(gwfast.pairwise_gromov_wasserstein([costs, cloud]), PairwiseResult)
assert_type(gwfast.pairwise_gromov_wasserstein([costs, cloud]).costs, NDArray[np.float64])
assert_type(gwfast.PointCloud.from_factors(x), gwfast.PointCloud)
gwfast.GraphCost(costs, directed=False)
gwfast.gromov_wasserstein(
    cloud, cloud, linear_cost=gwfast.CrossCost(x, x), marginals="semirelaxed", init=gw
)
assert_type(gwfast.gromov_wasserstein_batch([problem]), list[gwfast.GWResult])
assert_type(gwfast.sinkhorn(costs, epsilon=0.1), SinkhornResult)
assert_type(gwfast.sinkhorn(costs, epsilon=0.1).plan, NDArray[np.float32])
gwfast.gromov_wasserstein(cloud, costs, init=gwfast.Seeds([[0, 1], [1, 0]]))

source, target, dictionary = words.load_sample()
assert_type(source, words.Embeddings)
assert_type(source.vectors, NDArray[np.float32])
assert_type(dictionary, dict[str, set[str]])
assert_type(words.read_embeddings("a.vec", max_words=10), words.Embeddings)
words.read_embeddings("a.vec", errors="ignore")  # type: ignore[arg-type]
scores = gwfast.align(source, target).evaluate(dictionary, ks=[1, 5])
assert_type(scores["csls"].at[1], float)
assert_type(scores["csls"].interval(1), tuple[float, float])
assert_type(words.precision_at_k([[0]], dictionary, ["sol"], ["soleil"]).at[1], float)

assert_type(words.read_counts("counts.txt"), dict[str, float])
assert_type(words.Embeddings(["sol"], x.tolist()), words.Embeddings)
words.write_embeddings("a.npz", source)
words.write_embeddings("a.npz", (["sol"], x))  # type: ignore[arg-type]
words.write_dictionary("a.txt", dictionary)

slices = (x[:, :2], x), (y[:, :2], y)
tissue = spatial.pairwise_align(*slices, blur=2, options=gwfast.SolverOptions(tier="tiled"))
assert_type(tissue.gw, gwfast.GWResult)
assert_type(tissue.transform(), Floats)
assert_type(tissue.rigid()(x), NDArray[np.float64])
assert_type(spatial.center_align(slices[0], slices).programs, NDArray[np.float64])
assert_type(spatial.stack_slices(slices, [tissue]), list[NDArray[np.float64]])
cells = singlecell.align(x, y, marginals=gwfast.Unbalanced(0.1), key_added=None)
assert_type(cells.gw, gwfast.GWResult)
assert_type(cells.transfer_labels(["a"] * 60).shares, NDArray[np.float64])
assert_type(cells.foscttm(), float)
assert_type(singlecell.foscttm(x, x), float)
assert_type(singlecell.neighbor_costs(x, 5), NDArray[np.float64])
assert_type(singlecell.principal_components(x, 2), NDArray[np.float64])

pot.entropic_gromov_wasserstein(costs, costs, epsilon=0.1)
plot.plot_dynamics(gw.history, accuracy={"P@1": 0.5}, path="dynamics.png")
plot.plot_plan(gw.coupling, title="plan")
gradients.gromov_wasserstein_loss(costs, costs, epsilon=0.1)


def on_workers(client: Any) -> gwfast.GWResult:
    with distributed.cluster(client):
        return gwfast.gromov_wasserstein(cloud, cloud)


gwfast.show_config()
