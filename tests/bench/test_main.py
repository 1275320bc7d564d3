"""The program that runs the measurements: what it accepts and what it prints."""

from __future__ import annotations

import importlib
import json

import pytest

from bench.__main__ import FAMILIES, main

SAMPLE = {"sample": "tests.bench.sample_family"}


def test_json_names_each_figure_with_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the same figures that people see; what runs is said on standard error only."""
    assert main(["--family", "sample", "--output", "json"], SAMPLE) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {
        "figures": {
            name: {
                "value": 1.0,
                "bound": 2.0,
                "holds": True,
                "min": 1.0,
                "max": 1.0,
                "unit": "ms",
                "repeats": [1.0, 1.0],
            }
            for name in ("first_ms", "second_ms")
        }
    }
    assert printed.err == "measuring first\nmeasuring second\n"


def test_the_table_shows_whole_names(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is cut off can be looked up nowhere."""
    assert main([], SAMPLE) == 0
    assert "second_ms" in capsys.readouterr().out


def test_a_missed_bound_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """A script need not read the figures to know; here the short version has a bound that is missed."""
    assert main(["--short"], SAMPLE) == 1
    assert "MISSED" in capsys.readouterr().out


def test_only_the_cases_asked_for_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """`--case` takes several names, in the order wanted; `--list` says what there is."""
    main(["--case", "second", "--output", "json"], SAMPLE)
    assert list(json.loads(capsys.readouterr().out)["figures"]) == ["second_ms"]
    main(["--case", "second", "first", "--output", "json"], SAMPLE)
    assert list(json.loads(capsys.readouterr().out)["figures"]) == ["second_ms", "first_ms"]
    assert main(["--list"], SAMPLE) == 0
    assert capsys.readouterr().out == "first   the first thing\nsecond  the second thing\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--case", "third"], "sample has no third; it has first, second"),
        (["--repeats", "0"], "a whole number, at least 1, is wanted, not '0'"),
        (["--repeats", "many"], "a whole number, at least 1, is wanted, not 'many'"),
        (["--family", "other"], "sample"),
        (["--contender", "muster"], "sample compares none; control-plane does"),
        (["--contender", "slurm"], "invalid choice: 'slurm'"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what would be accepted."""
    with pytest.raises(SystemExit, match="2"):
        main(arguments, SAMPLE)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_names_its_cases(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has at least one case, says what it measures, and has a function that does."""
    family = importlib.import_module(FAMILIES[name])
    assert main(["--family", name, "--list"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert dict(lines) == family.CASES
    assert callable(family.measure)
