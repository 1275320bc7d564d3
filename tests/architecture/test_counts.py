"""The code's shape stays within its limits, and what counts it counts right."""

from __future__ import annotations

from pathlib import Path

from tests.architecture import counts
from tests.architecture.limits import COUNTS, SMALL_CONCEPTS


def test_the_shape_is_within_its_limits() -> None:
    """No figure is worse than what was reached before; `python -m tests.architecture.counts --list` says where."""
    reached = counts.figures()
    assert reached.keys() == COUNTS.keys()
    assert {figure: value for figure, value in reached.items() if value > COUNTS[figure].now} == {}


def test_small_concepts_are_argued_and_exist() -> None:
    """An exception has a reason, is a module, and is as small as it claims."""
    small = {
        module.name
        for module in counts.modules(counts.REPOSITORY)
        if module.lines < counts.SMALL and not module.is_entry
    }
    assert [name for name, reason in SMALL_CONCEPTS.items() if name not in small or not reason] == []


def test_what_is_counted(tmp_path: Path) -> None:
    """Imports of own modules inside functions count, those of others do not; a nested class is a class."""
    for package in counts.PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("world.admission" + ".model.table\nworld.admission.decide()\n")
    (tmp_path / "README.md").write_text(f"It {counts.PHRASES[4]} start, {counts.PHRASES[2].title()} waits.\n")
    (tmp_path / "extender" / "a.py").write_text("import os\n\nclass One:\n    class Two: ...\n")
    (tmp_path / "extender" / "b.py").write_text(
        "from extender import a\n\ndef f():\n    import extender.a, json\n\nclass Two: ...\n"
    )
    assert counts.figures(tmp_path) == {
        "lines in extender": 10,
        "own imports of a module, on average": 0.5,
        "modules under 60 lines": 2,
        "class names in several modules": 1,
        "words of dialect": 2,
        "places in tests that reach through": 1,
    }
    read = counts.modules(tmp_path)
    assert counts.small_modules(read) == ["extender.a", "extender.b"]
    assert counts.repeated_classes(read) == {"Two": ["extender.a", "extender.b"]}
