"""What a gang asks of the topology, made of what its objects say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.topology import (
    SILENT,
    UNCONSTRAINED,
    Objective,
    RoleGroup,
    Slice,
    Statement,
    TopologyRequest,
    TopologyTerms,
    settle,
)

WORKERS = frozenset({"worker"})
BOTH = frozenset({"launcher", "worker"})


def gang(**terms: object) -> Statement:
    """Return what a PodGroup says."""
    return Statement(TopologyTerms(**terms), None)  # type: ignore[arg-type]  # fields of TopologyTerms


def member(role: str = "worker", **terms: object) -> Statement:
    """Return what members of a role say."""
    return Statement(TopologyTerms(**terms), role)  # type: ignore[arg-type]  # fields of TopologyTerms


def podset(role: str, name: str = "", **terms: object) -> Statement:
    """Return what members of a role say about their own set of pods."""
    return member(role, podset=name, **terms)


def test_nothing_said_asks_for_nothing() -> None:
    """Silence is an all-reduce anywhere."""
    assert settle((), WORKERS) == UNCONSTRAINED == TopologyRequest(objective=Objective.ALLREDUCE)


def test_each_term_is_taken_from_the_first_that_has_it() -> None:
    """One word on a nearer object does not silence all others on a farther one."""
    tiers = (
        (gang(required="block"),),
        (member(preferred="rack", required="zone"), member(preferred="node", objective=Objective.NONE)),
        (gang(slices=(Slice(4, "rack"),), objective=Objective.ALLTOALL),),
    )
    assert settle(tiers, WORKERS) == TopologyRequest(
        required="block", preferred="rack", slices=(Slice(4, "rack"),), objective=Objective.NONE
    )


def test_what_a_set_of_pods_asks_is_the_gangs_if_all_are_in_it() -> None:
    """A gang of one set of pods is that set."""
    assert settle(((podset("worker", required="rack"),),), WORKERS) == TopologyRequest(required="rack")
    same = (podset("launcher", "all", required="rack"), podset("worker", "all", required="rack"))
    assert settle((same,), BOTH) == TopologyRequest(required="rack")


def test_what_one_of_several_sets_asks_is_a_role_group() -> None:
    """The launcher need not be in the workers' rack; each set has a domain of its own."""
    assert settle(((podset("worker", required="rack", preferred="node"),),), BOTH) == TopologyRequest(
        role_groups=(RoleGroup(WORKERS, "rack"), RoleGroup(WORKERS, "node", required=False))
    )
    apart = (podset("launcher", required="rack"), podset("worker", required="rack"))
    groups = (RoleGroup(frozenset({"launcher"}), "rack"), RoleGroup(WORKERS, "rack"))
    assert settle((apart,), BOTH) == TopologyRequest(role_groups=groups)


def test_a_named_set_of_several_roles_shares_one_domain() -> None:
    """Roles that name the same set are together; others are not concerned."""
    said = (podset("leader", "pair", required="rack"), podset("worker", "pair", required="rack"))
    groups = (RoleGroup(frozenset({"leader", "worker"}), "rack"),)
    assert settle((said,), frozenset({"leader", "worker", "ps"})) == TopologyRequest(role_groups=groups)


def test_the_gangs_own_level_counts_before_a_sets() -> None:
    """What stands higher about the whole gang replaces what a set of pods asks, term by term."""
    tiers = ((gang(required="block"),), (podset("worker", required="rack", preferred="node"),))
    assert settle(tiers, WORKERS) == TopologyRequest(required="block", preferred="node")
    group = RoleGroup(WORKERS, "node", required=False)
    assert settle(tiers, BOTH) == TopologyRequest(required="block", role_groups=(group,))


def test_a_set_on_a_pod_group_is_the_gang() -> None:
    """A PodGroup cannot be part of a set of pods."""
    assert settle(((gang(required="rack", podset=""),),), BOTH) == TopologyRequest(required="rack")


def test_slices_on_some_roles_are_those_roles() -> None:
    """A launcher that is not in the slices does not shift them; slices that all ask for are everybody's."""
    slices = (Slice(4, "rack"), Slice(2, "node"))
    of_workers = (Slice(4, "rack", WORKERS), Slice(2, "node", WORKERS))
    assert settle(((member(slices=slices),),), BOTH).slices == of_workers
    assert settle(((member("launcher", slices=slices), member(slices=slices)),), BOTH).slices == slices
    different = (member("launcher", slices=(Slice(8, "rack"),)), member(slices=slices))
    assert settle((different,), BOTH).slices == (Slice(8, "rack", frozenset({"launcher"})), *of_workers)


def test_slices_of_a_pod_group_stand_as_they_are() -> None:
    """A PodGroup says itself whose slices it means, and its word is before the members'."""
    slices = (Slice(4, "rack", WORKERS),)
    assert settle(((gang(slices=slices),), (member(slices=(Slice(2, "node"),)),)), BOTH).slices == slices


def test_the_first_word_of_a_role_about_slices_counts() -> None:
    """Where members of one role disagree, the first in member order decides."""
    said = (member(slices=(Slice(4, "rack"),)), member(slices=(Slice(2, "rack"),)))
    assert settle((said,), WORKERS).slices == (Slice(4, "rack"),)


def test_a_group_without_roles_is_one_for_each() -> None:
    """Subgroups that are split by role need not name the roles."""
    terms = gang(role_groups=(RoleGroup(frozenset(), "rack"), RoleGroup(BOTH, "block", required=False)))
    assert settle(((terms,),), BOTH).role_groups == (
        RoleGroup(frozenset({"launcher"}), "rack"),
        RoleGroup(WORKERS, "rack"),
        RoleGroup(BOTH, "block", required=False),
    )


@pytest.mark.parametrize(
    "other",
    [
        {"required": "rack"},
        {"preferred": "rack"},
        {"slices": (Slice(2, "rack"),)},
        {"role_groups": (RoleGroup(WORKERS, "rack"),)},
        {"objective": Objective.ALLREDUCE},
        {"podset": ""},
    ],
)
def test_terms_compare_by_content(other: dict[str, object]) -> None:
    """Equal terms are one key, and any difference makes another."""
    terms = TopologyTerms(**other)  # type: ignore[arg-type]  # fields of TopologyTerms
    assert terms == TopologyTerms(**other)  # type: ignore[arg-type]  # the same
    assert len({terms, TopologyTerms(**other), SILENT}) == 2  # type: ignore[arg-type]  # the same


ROLES = st.sampled_from(["launcher", "ps", "worker"])
LEVELS = st.sampled_from(["", "rack", "block"])
TERMS = st.builds(
    TopologyTerms,
    required=LEVELS,
    preferred=LEVELS,
    slices=st.sampled_from([(), (Slice(2, "rack"),)]),
    objective=st.none() | st.sampled_from(Objective),
    podset=st.none() | st.sampled_from(["", "pair"]),
)


@given(st.lists(st.tuples(TERMS, st.none() | ROLES).map(lambda said: Statement(*said)), max_size=5), st.sets(ROLES))
def test_no_level_is_asked_for_that_nobody_named(said: list[Statement], others: set[str]) -> None:
    """A request holds levels, roles and objectives that were stated, and is the same however often it is made."""
    roles = frozenset(others | {statement.role for statement in said if statement.role is not None})
    request = settle((tuple(said),), roles)
    levels = {level for statement in said for level in (statement.terms.required, statement.terms.preferred)} | {""}
    assert {request.required, request.preferred, *(group.level for group in request.role_groups)} <= levels
    assert all(group.roles and group.roles <= roles for group in request.role_groups)
    assert all(each.roles < roles or not each.roles for each in request.slices)
    assert settle((tuple(said),), roles) == request
