"""Settings, fixtures and the record of machine and failures.

Thread counts are set here, on purpose and for every library, before any of them is
loaded: OpenMP and BLAS read theirs once.
"""

import os

import pytest
import threadpoolctl

from .common import settings

os.environ.update(settings.environment(settings.THREADS))

# Tests that were skipped or failed, with the reason: they belong in the report.
not_run = []


def pytest_runtest_logreport(report):
    if report.passed:
        return
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
    else:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = crash.message if crash else str(report.longrepr)
    reason = reason.partition("\n")[0]
    test = report.nodeid.rpartition("/")[2]
    # What the teardown complains about follows from what failed before.
    if not any(entry["test"] == test for entry in not_run):
        not_run.append({"test": test, "outcome": report.outcome, "reason": reason})


def pytest_benchmark_update_machine_info(machine_info):
    from .common import machine

    # The bandwidth once more, as this is called at the end: neighbors on a shared
    # machine come and go.
    after = machine.fastest(machine.read_bandwidths(settings.THREADS))
    facts = machine.describe(settings.THREADS)
    machine_info["gwfast"] = {**facts, "read_after": after}


def pytest_benchmark_update_json(output_json):
    output_json["not_run"] = not_run


@pytest.fixture(scope="session")
def n_threads():
    return settings.THREADS


@pytest.fixture(scope="session")
def limits(n_threads):
    """What this machine can do at best, see `machine.limits`."""
    from .common import machine

    return machine.limits(n_threads)


@pytest.fixture
def bench(benchmark, n_threads):
    """The benchmark, with BLAS held to the threads everybody gets, and the load."""
    benchmark.extra_info["threads"] = n_threads
    benchmark.extra_info["load"] = round(os.getloadavg()[0], 2)
    with threadpoolctl.threadpool_limits(n_threads):
        yield benchmark
