"""Sizes, limits and threads, each set by an environment variable."""

import os


def _number(name, default):
    return int(os.environ.get(f"GWFAST_BENCH_{name}", default))


def _numbers(name, default):
    return [int(one) for one in os.environ.get(f"GWFAST_BENCH_{name}", default).split(",")]


# Threads of everything but the part that varies them.
THREADS = _number("THREADS", 2)
# Words a side; graphs of words have half as many.
WORDS = _number("WORDS", 2000)
LARGE = _number("LARGE", 5000)
GROWTH = _numbers("GROWTH", "500,1000,2000,5000,10000,20000")
GRAPHS = _numbers("GRAPHS", "1000,2300,5000,10000")
# Points of the problems of which there are many.
SMALL = _numbers("SMALL", "20,50,100")
# Seconds after which a call of POT on thousands of cells is given up.
POT_SECONDS = _number("POT_SECONDS", 600)
# Rows and columns of the matrices that kernels are timed on: 16 MB, which many
# processors keep in cache, is how it goes inside a small solve; 1 GB none does.
KERNELS = _numbers("KERNELS", "2000,16000")
# What the limits of the machine are measured on: many times the largest last-level
# cache of a desktop or a small server, and a product that takes half a second.
READ_MB = _number("READ_MB", 1024)
GEMM = _number("GEMM", 4096)


def environment(n_threads):
    """Environment variables that give every library as many threads.

    They have to be set before any of them is loaded: OpenMP and BLAS read theirs once.
    """
    names = ("OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR")
    made = {f"{name}_NUM_THREADS": str(n_threads) for name in names}
    # XLA has no thread option that holds; its pool on the CPU has NPROC threads.
    made["NPROC"] = str(n_threads)
    several = str(n_threads > 1).lower()
    made["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={several}"
    made["JAX_PLATFORMS"] = "cpu"
    return made


def solver_arguments(**settings):
    """Return the arguments of a solver for flat settings: rare ones go into `options`, and a `mass`
    or a `rho` into `marginals`. Trees from before `SolverOptions` take flat settings.
    """
    import gwfast

    if not hasattr(gwfast, "SolverOptions"):
        if "max_iter" in settings:
            settings["max_outer"] = settings.pop("max_iter")
        return settings
    for name, rule in (("mass", gwfast.Partial), ("rho", gwfast.Unbalanced)):
        if name in settings:
            settings["marginals"] = rule(settings.pop(name))
    rare = gwfast.SolverOptions.__dataclass_fields__.keys() & settings.keys()
    options = gwfast.SolverOptions(**{name: settings.pop(name) for name in rare})
    return settings | {"options": options} if rare else settings
