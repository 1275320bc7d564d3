"""A judge of Muster's promises P1 to P7, from what the API server saw and never from what Muster believes.

Here live the history that is judged (`history`), its own reading of Kubernetes objects (`objects`), the objects' lives
(`lives`), one module of rules for each group of promises, and `judge`, which applies them all. Nothing here imports
Muster, reads a clock or talks to anybody: equal histories have equal verdicts.
"""

from tests.judge.history import Arrival, Change, ChangeType, History, Json, Tolerance, Violation
from tests.judge.verdict import judge, report

__all__ = ["Arrival", "Change", "ChangeType", "History", "Json", "Tolerance", "Violation", "judge", "report"]
