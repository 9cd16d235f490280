"""What stands above the tables: the machine, versions, load, and the limits."""

import sys

from . import jobs, settings


def measured(run):
    """What `machine.describe` says, by a job of a worker."""
    job = {"task": "machine", "threads": settings.THREADS}
    result = run(job, jobs.PATIENCE)
    if "machine" not in result:
        sys.exit(f"The machine could not be measured: {result.get('failed')}")
    return result["machine"]


def shown(facts, date, loads):
    """Machine, versions, load and limits."""
    config = facts["config"]
    versions = ", ".join(
        f"{name} {version or 'not installed'}" for name, version in facts["versions"].items()
    )
    load = f", load average {min(loads):.1f} to {max(loads):.1f}" if loads else ""
    environment = "".join(f", {name}={value}" for name, value in facts["environment"].items())
    return (
        f"{facts['cpu']}, {facts['cpus']} CPUs, {facts['memory'] / 1e9:.0f} GB,"
        f" {facts['threads']} threads each where nothing else is said,"
        f" {config['platform']}, Python {config['python']}; {versions};"
        f" instruction set {config['instruction set']}; OpenMP {config['OpenMP']};"
        f" BLAS {config['BLAS']}{environment}. {date}{load}.\n\n{limits(facts)}"
    )


def limits(facts):
    """What this machine can do at best, as it was measured."""
    found = facts["limits"]
    reads = "; ".join(
        f"{method} " + ", ".join(f"{rate:.1f}" for rate in rates.values())
        for method, rates in found["reads"].items()
    )
    products = ", ".join(f"{rate:.0f} {how}" for how, rate in found["sgemms"].items())
    after = ""
    if "read_after" in facts:
        after = f" ({facts['read_after']:.1f} when measured again at the end)"
    return (
        f"Limits: read {found['read']:.1f} GB/s{after}; SGEMM, GFLOP/s: {products}."
        f" Reads by method (1 to {facts['threads']} threads, GB/s): {reads}."
    )
