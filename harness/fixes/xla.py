"""The remedy `xla`.

XLA fuses operations into fewer kernels, which launches less and reads memory less often.

Safety: rounding differs, as between two devices; the first step takes longer, as does the first of each shape in
evaluate and predict; an index outside a table is moved to its edge, and no error. Not offered to a script that checks
its values, because XLA leaves assertions out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from harness.fixes.changes import calls_python
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, calls_in, name_of
from workloads.protocol import Aim, Edit

# Of tf.debugging, but for those of NumPy's and unittest's, which run in Python.
_CHECK = re.compile(
    r"Assert$|verify_tensor_all_finite$|(enable_)?check_numerics|assert_(?!allclose$|array|almost|approx)"
)


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each compile; [] if XLA would leave checks out."""
    attributes = (node.attr for node in source.nodes if isinstance(node, ast.Attribute))
    if any(map(_CHECK.match, {*map(name_of, calls_in(source.tree)), *attributes, *source.imported()})):
        return []
    if any(node.arg == "validate_args" for node in source.nodes if isinstance(node, ast.keyword)):
        return []
    if calls_python(source):
        return []  # XLA cannot compile that, in any step
    return source.keyword_at(source.compiles(), "jit_compile", "True")


RULE = Rule(
    name="xla",
    summary="Compile the step with XLA: jit_compile=True",
    aim=Aim.DEVICE,
    safety=Safety.ALIKE,
    edits=edits,
)
