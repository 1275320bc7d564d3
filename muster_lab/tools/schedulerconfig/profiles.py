"""Rules about the profiles: whose pods are they, are all nodes offered, and do the plugins leave Muster its part?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from muster_lab.tools.schedulerconfig.document import Plugins, PluginSet, SchedulerConfiguration, SchedulerProfile
from muster_lab.tools.schedulerconfig.finding import Expectations, Finding, error, warning

#: The schedulerName of pods that name none, and of a profile that names none.
DEFAULT_SCHEDULER = "default-scheduler"

_ALL_NODES = 100
_SAMPLED = (
    "from 100 nodes up kube-scheduler offers a sample of the nodes; a planned node that is missing counts as refused, "
    "and the gang is planned again and again"
)


def check_profiles(config: SchedulerConfiguration, expected: Expectations) -> Iterator[Finding]:
    """Yield what is wrong with the profiles and the share of the nodes that is offered."""
    profiles = config.profiles or [SchedulerProfile()]
    yield from _check_names(profiles, expected)
    yield from _check_shares(config, profiles)
    for index, profile in enumerate(profiles):
        yield from _check_plugins(profile.plugins or Plugins(), f"profiles[{index}].plugins")


def names_of(profiles: Sequence[SchedulerProfile]) -> list[str]:
    """Return the schedulerName of each profile; a single one without a name has the default's."""
    if len(profiles) == 1 and profiles[0].scheduler_name is None:
        return [DEFAULT_SCHEDULER]
    return [profile.scheduler_name or "" for profile in profiles]


def _check_names(profiles: Sequence[SchedulerProfile], expected: Expectations) -> Iterator[Finding]:
    names, told = names_of(profiles), ", ".join(expected.scheduler_names)
    for index, name in enumerate(names):
        path = f"profiles[{index}].schedulerName"
        if not name:
            yield error(path, "is missing; kube-scheduler refuses to start", f"one of: {told}")
        elif name in names[:index]:
            first = names.index(name)
            yield error(path, f"profiles[{first}] has the same name; kube-scheduler refuses to start", "another name")
        elif name not in expected.scheduler_names:
            yield error(
                path,
                f"Muster manages pods of {told}: those of {name} pass through filter, and bind refuses them",
                f"one of: {told}; or scheduler_names: [{', '.join([*expected.scheduler_names, name])}] for Muster",
            )
        if name == DEFAULT_SCHEDULER:
            yield warning(
                path,
                "every pod that names no scheduler goes through Muster: while it is down, none of them starts, "
                "Muster's own pod included",
                "a name of its own, such as muster, in a second kube-scheduler",
            )
    for name in expected.scheduler_names:
        if name not in names:
            problem = f"no profile is called {name}, as Muster expects: pods that name it wait, and no event says why"
            yield error("profiles", problem, f"schedulerName: {name}")


def _check_shares(config: SchedulerConfiguration, profiles: Sequence[SchedulerProfile]) -> Iterator[Finding]:
    share = config.percentage_of_nodes_to_score
    if share != _ALL_NODES and any(profile.percentage_of_nodes_to_score is None for profile in profiles):
        yield error("percentageOfNodesToScore", _SAMPLED if share is None else f"{share}: {_SAMPLED}", "100")
    for index, profile in enumerate(profiles):
        own = profile.percentage_of_nodes_to_score
        if own is not None and own != _ALL_NODES:
            yield error(f"profiles[{index}].percentageOfNodesToScore", f"{own}: {_SAMPLED}", "100, or nothing")


def _check_plugins(plugins: Plugins, path: str) -> Iterator[Finding]:
    multi = plugins.multi_point or PluginSet()
    if _without(plugins.filter, multi, "NodeResourcesFit"):
        yield error(
            f"{path}.{_where_disabled(plugins.filter, 'filter', 'NodeResourcesFit')}",
            "kube-scheduler no longer checks whether a node has room: what it knows earlier than Muster, such as a pod "
            "that was just bound, is overlooked, and the kubelet refuses the member",
            "nothing: leave NodeResourcesFit enabled",
        )
    binders = _enabled(plugins.bind) | (_enabled(multi) & {"DefaultBinder"})
    if _without(plugins.bind, multi, "DefaultBinder") and not binders:
        yield error(
            f"{path}.{_where_disabled(plugins.bind, 'bind', 'DefaultBinder')}",
            "kube-scheduler refuses to start without a bind plugin",
            "nothing: with bindVerb the plugin is not called anyway",
        )
    foreign = sorted(_enabled(plugins.bind) - {"DefaultBinder"})
    if foreign:
        problem = f"{', '.join(foreign)} is never called: the extender's bindVerb goes before bind plugins"
        yield warning(f"{path}.bind.enabled", problem, "nothing")
    for field, point in (("permit", plugins.permit), ("multiPoint", plugins.multi_point)):
        holding = sorted(_enabled(point)) if field == "permit" else sorted(_enabled(point) & {"Coscheduling"})
        if holding:
            yield warning(
                f"{path}.{field}.enabled",
                f"{', '.join(holding)} holds members before they reach bind, where Muster gathers them: a second gang "
                "scheduler, whose timeout tears up what Muster has placed",
                "nothing: Muster gathers gangs by itself",
            )


def _enabled(point: PluginSet | None) -> set[str]:
    return {plugin.name for plugin in (point.enabled if point else None) or ()}


def _disabled(point: PluginSet | None) -> set[str]:
    return {plugin.name for plugin in (point.disabled if point else None) or ()}


def _without(point: PluginSet | None, multi: PluginSet, name: str) -> bool:
    """Tell whether a default plugin is gone from an extension point. Being enabled goes before being disabled."""
    if name in _enabled(point):
        return False
    if _disabled(point) & {name, "*"}:
        return True
    return bool(_disabled(multi) & {name, "*"}) and name not in _enabled(multi)


def _where_disabled(point: PluginSet | None, field: str, name: str) -> str:
    return f"{field if _disabled(point) & {name, '*'} else 'multiPoint'}.disabled"
