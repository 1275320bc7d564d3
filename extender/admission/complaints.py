"""What is wrong in objects that people wrote, told to them."""

from __future__ import annotations

from collections.abc import Mapping

from extender.admission.effects import Effects, Note
from extender.cluster.gangs import Gang
from extender.cluster.model import ClusterModel
from extender.domain.membership import GroupRef
from extender.domain.objectref import ObjectRef
from extender.domain.pod import Pod
from extender.domain.reason import Problem


class Complaints:
    """Note the problems of objects, each problem of one object once."""

    def __init__(self, model: ClusterModel) -> None:
        """Look at the objects of `model`; nothing has been told of them yet."""
        self._model = model
        self._told: dict[str, tuple[Problem, ...]] = {}  # UID -> what was told
        self._of_hardware: Mapping[ObjectRef, tuple[Problem, ...]] = {}

    def forget_all(self) -> None:
        """Forget what was told: somebody else may tell other things meanwhile."""
        self._told.clear()
        self._of_hardware = {}

    def forget(self, uid: str) -> None:
        """Forget an object that is gone."""
        self._told.pop(uid, None)

    def about_everybody(self, effects: Effects) -> None:
        """Note the problems of all pods and PodGroups that there are."""
        for pod in self._model.pods.values():
            if pod.options.problems:
                self.about_pod(pod, effects)
        for gang in self._model.gangs:
            self.about_group(gang, effects)

    def about_pod(self, pod: Pod, effects: Effects) -> None:
        """Note odd keys of a pod that is for Muster."""
        if self._model.manages(pod):
            self._tell(pod, pod.uid, pod.options.problems, effects)

    def about_group(self, gang: Gang, effects: Effects) -> None:
        """Note odd keys of a PodGroup once it is known to be for Muster; a wrong field is the reason why it waits."""
        group = gang.group
        if group is not None and self._model.concerns(gang):
            self._tell(group.ref, group.uid, group.options.problems, effects)

    def about_hardware(self, effects: Effects) -> None:
        """Note what is wrong with objects that describe network and hardware; one that was mended may break again."""
        problems = self._model.problems()
        if problems == self._of_hardware:
            return
        for about in self._of_hardware.keys() - problems.keys():  # in whatever order: it is only forgotten
            self.forget(about.uid)
        for about, found in problems.items():
            self._tell(about, about.uid, found, effects)
        self._of_hardware = problems

    def _tell(
        self, about: GroupRef | Pod | ObjectRef, uid: str, problems: tuple[Problem, ...], effects: Effects
    ) -> None:
        known = self._told.get(uid, ())
        if problems is known:
            return
        effects.notes += (
            Note(about, warning=True, reason="InvalidField", message=str(problem))
            for problem in problems
            if problem not in known
        )
        if problems:
            self._told[uid] = problems
