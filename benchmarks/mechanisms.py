"""The code of each mechanism of the solver: what could be deleted with it, by language."""

import re

from .common.runner import ROOT

# Files, whole or the larger functions, classes, types and macros that only the mechanism needs. The
# decisions in judge.h are C because the compiled loop calls them too. Python would need as many
# lines for them, so only their wrappers count.
WHERE = {
    "low_rank_updates": {
        "gwfast/quadratic/low_rank.py": "Outer Product Reference LowRankPart summed Projections"
        " LeadingFactors suits rank_for error_over",
        "gwfast/quadratic/cost_side.py": "CostSide.eigenpairs",
        "gwfast/quadratic/dense.py": "DenseLinearization._product",
    },
    "levels": {
        "gwfast/problems/low_rank.py": "",
        "gwfast/solvers/search/levels.py": "ladder fewer_points fits",
        "gwfast/solvers/search/driver.py": "_promoted",
        "gwfast/quadratic/factored.py": "FactoredLinearization.extended"
        " FactoredLinearization._extended_potentials",
    },
    "acceleration": {
        "gwfast/quadratic/acceleration.py": "",
        "gwfast/quadratic/dense.py": "DenseLinearization.mixed",
        "gwfast/kernels/_judge.pyx": "Judge.fails Judge.lead",
        "csrc/judge.h": "gwf_fails gwf_form gwf_invert gwf_divide_by_root gwf_lead",
        "csrc/gwfast.h": "gwf_products",
        "csrc/descent.inc": "sample follow accelerate",
    },
    "small_descents": {
        "gwfast/quadratic/small_descent.py": "",
        "gwfast/solvers/small.py": "",
        "gwfast/quadratic/descend.py": "Descent.after_compiled CompiledSteps",
        "gwfast/kernels/_descent.pyi": "",
        "gwfast/kernels/_descent.pyx": "",
        "gwfast/kernels/_judge.pyi": "",
        "gwfast/kernels/_judge.pyx": "",
        "gwfast/kernels/_judge.pxd": "",
        "csrc/descent.inc": "",
        "csrc/descent_linear.inc": "",
        "csrc/descent_shared.inc": "",
        "csrc/descent_types.inc": "",
        "csrc/vector_products.inc": "",
        "csrc/gwfast.h": "GWF_LIMITS gwf_limits",
    },
    "newton": {
        "gwfast/linear/newton.py": "",
        "gwfast/kernels/_judge.pyx": "next_omega",
        "csrc/judge.h": "gwf_next_omega",
        "csrc/descent_linear.inc": "eliminate newton_step",
    },
    "few_entries": {
        "gwfast/quadratic/samples.py": "",
        "gwfast/quadratic/neighbors.py": "Truncation",
        "gwfast/linear/support.py": "Support.of_plan",
        "gwfast/kernels/_sparse.pyx": "sample select",
        "csrc/float_kernels.inc": "strip_sum sample_row carries select_row",
    },
    "second_look": {
        "gwfast/solvers/search/clusters.py": "",
        "gwfast/solvers/search/paths.py": "",
        "gwfast/solvers/search/diffusion.py": "",
        "gwfast/solvers/search/portfolio.py": "Restarts",
        "gwfast/solvers/search/driver.py": "_doubtful _along_axes _plan_of",
    },
}
LANGUAGES = {"Python": ("py",), "Cython": ("pyx", "pxd", "pyi"), "C": ("h", "inc", "c")}
# A line of Python or Cython that defines NAME, and all that is indented below it; in C a macro, a
# function, which may be on one line, and a type.
INDENTED = r"^( *)(?:def|class|cdef|cpdef)\b[^(:=]*?\bNAME\b.*\n(?:\1(?: .*|\).*)\n|\n(?=\s*\S))*"
IN_C = (
    r"^#define NAME\b(?:.*\\\n)*.*\n"
    r"|^static [^;{}]*\bNAME\)?\([^;{}]*\) \{(?:.*\}\n|[^}]*\n(?:[^}].*\n|\n)*\}\n)"
    r"|^typedef struct \{[^}]*\} NAME;\n"
)


def source_of(path, name):
    """Return the source of a function, class, type or macro, of a method as ``Class.method``."""
    text, pattern = (ROOT / path).read_text("utf-8"), IN_C if "csrc" in path else INDENTED
    for part in name.split("."):
        found = re.search(pattern.replace("NAME", re.escape(part)), text, re.MULTILINE)
        if found is None:
            raise ValueError(f"{path} has no {name}: change the table in {__name__}")
        text = found[0].rstrip() + "\n"
    return text


def lines_of(mechanism):
    """Return the number of lines of a mechanism in each of `LANGUAGES`."""
    lines = dict.fromkeys((end for ends in LANGUAGES.values() for end in ends), 0)
    for path, names in WHERE[mechanism].items():
        texts = [source_of(path, name) for name in names.split()]
        texts = texts or [(ROOT / path).read_text("utf-8")]
        lines[path.rpartition(".")[2]] += sum(text.count("\n") for text in texts)
    return [sum(lines[end] for end in ends) for ends in LANGUAGES.values()]
