"""Right values of past faults that the tests of no room hold."""

import networkx
import numpy as np
from helpers.problems import cloud, distances, orthogonal

import gwfast
from gwfast import pot


def test_pots_function_finds_a_cycle_in_itself():
    """The product plan, from which it starts, is a saddle of this problem."""
    cycle = networkx.to_numpy_array(networkx.cycle_graph(20))
    assert abs(pot.gromov_wasserstein2(cycle, cycle)) < 1e-9


def test_clouds_of_more_dimensions_than_points_are_solved_like_their_matrices():
    x = np.random.default_rng(0).standard_exponential((60, 100)) ** 1.5
    clouds = [gwfast.PointCloud(z - z.mean(axis=0)) for z in (x, x[::-1] @ orthogonal(100, 0))]
    matrices = [side.to_dense().matrix for side in clouds]
    of_clouds, of_matrices = (
        gwfast.gromov_wasserstein(*costs, epsilon="2%") for costs in (clouds, matrices)
    )
    np.testing.assert_allclose(of_clouds.plan, of_matrices.plan, atol=1e-6 / 60)
    iterations = [[row.n_iter for row in x.candidates] for x in (of_clouds, of_matrices)]
    assert sum(iterations[0]) <= 1.2 * sum(iterations[1])


def test_sinkhorn_takes_a_few_dozen_iterations_at_a_small_epsilon():
    result = gwfast.sinkhorn(distances(cloud(100, 3, 3)), epsilon=0.05)
    assert result.converged and result.n_iter <= 60


def test_rounding_makes_no_objective_negative():
    cost = networkx.floyd_warshall_numpy(networkx.barbell_graph(6, 3))
    assert 0 <= gwfast.gromov_wasserstein(cost, cost, epsilon=0).gw_cost < 1e-12
