"""Links of a node's GPUs: Muster's own annotation and HAMi's, right and wrong."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.hardware.links import KNOWN_MATRICES, GpuFacts, LinkMatrix, LinksError, Path, read_gpu_facts, read_matrix
from extender.objects.keys import GPU_LINKS, HAMI_REGISTER, HAMI_SCORE

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "gpu-links.md"
TWO_PAIRS = "X NV4 SYS SYS; NV4 X SYS SYS; SYS SYS X NV4; SYS SYS NV4 X; numa 0 0 1 1"
LEGACY = "GPU-a,10,32768,100,NVIDIA-Tesla V100,0,true:GPU-b,10,32768,100,NVIDIA-Tesla V100,1,true:"
SCORES = [{"uuid": "GPU-a", "score": {"GPU-b": 210}}, {"uuid": "GPU-b", "score": {"GPU-a": 210}}]


def nvlinks(matrix: LinkMatrix, first: int, second: int) -> int:
    """Return how many NVLinks join two GPUs directly: 100 of the score for each."""
    return matrix.scores[first][second] // 100


def facts(**annotations: str) -> GpuFacts:
    """Read annotations given as `links`, `score` and `register`."""
    keys = {"links": GPU_LINKS, "score": HAMI_SCORE, "register": HAMI_REGISTER}
    return read_gpu_facts({keys[name]: text for name, text in annotations.items()})


def test_matrix_is_that_of_nvidia_smi() -> None:
    """Cells of `nvidia-smi topo -m` become 100 for each NVLink, or the path's score; the last row has the zones."""
    matrix = read_matrix(TWO_PAIRS)
    assert matrix.scores == ((0, 400, 10, 10), (400, 0, 10, 10), (10, 10, 0, 400), (10, 10, 400, 0))
    assert matrix.zones == (0, 0, 1, 1)
    assert (matrix.gpus, nvlinks(matrix, 0, 1), nvlinks(matrix, 0, 2)) == (4, 4, 0)


def test_rows_may_be_lines_and_zones_may_be_missing() -> None:
    """Line ends separate rows as semicolons do; without a row `numa` nothing is said of zones."""
    assert read_matrix("X PIX\n PIX X\n") == read_matrix("X PIX;PIX X")
    assert read_matrix("X PIX;PIX X").zones == ()
    assert read_matrix("X").gpus == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has 0 rows of GPUs; expected 1 to 64"),
        (";".join(["X"] * 65), "has 65 rows"),
        ("X NV1; NV1 X X", "row 1 has 3 cells; expected 2"),
        ("X NV1; NV1 Y", "row 1, column 1 is 'Y'; expected X"),
        ("X NV0; NV0 X", "row 0, column 1 is 'NV0'; expected SYS, NODE, PHB, PXB, PIX, or NV"),
        ("X BOARD; BOARD X", "row 0, column 1 is 'BOARD'"),
        ("X NV2; NV1 X", "row 1, column 0 says NV1, but row 0, column 1 says NV2"),
        ("X NV1; NV1 X; numa 0", "the row numa must have 2 zone numbers"),
        ("X NV1; NV1 X; numa 0 -1", "the row numa must have 2 zone numbers"),
    ],
)
def test_bad_matrix_is_refused_with_its_place(text: str, said: str) -> None:
    """A matrix that cannot be meant is refused with row, column and what is expected there."""
    with pytest.raises(LinksError) as refused:
        read_matrix(text)
    assert said in str(refused.value)


def test_hami_scores_become_links() -> None:
    """HAMi's scores are taken apart into NVLinks and path; its register gives order, UUIDs and zones."""
    read = facts(score=json.dumps(SCORES), register=LEGACY)
    assert read.links is not None
    assert read.links.scores == ((0, 210), (210, 0))
    assert (nvlinks(read.links, 0, 1), read.uuids, read.zones, read.problems) == (2, ("GPU-a", "GPU-b"), (0, 1), ())


def test_hami_register_in_json_orders_by_index() -> None:
    """The JSON form of the register gives the device index of each UUID; zone -1 is no zone."""
    register = [{"id": "GPU-b", "index": 1, "numa": -1}, {"id": "GPU-a", "index": 0, "numa": 0, "mode": "hami-core"}]
    read = facts(register=json.dumps(register))
    assert (read.uuids, read.zones, read.links) == (("GPU-a", "GPU-b"), (), None)
    assert facts(register=json.dumps([{"id": "GPU-b"}, {"id": "GPU-a"}])).uuids == ("GPU-b", "GPU-a")


def test_scores_without_register_are_in_their_own_order() -> None:
    """Without a register the GPUs are numbered as the scores list them."""
    read = facts(score=json.dumps(SCORES))
    assert read.uuids == ("GPU-a", "GPU-b")
    assert read.links is not None


def test_own_annotation_wins() -> None:
    """Muster's own annotation goes before HAMi's scores, whose register still gives the UUIDs."""
    read = facts(links="X PIX; PIX X; numa 1 1", score=json.dumps(SCORES), register=LEGACY)
    assert read.links is not None
    assert (read.links.scores, read.zones, read.uuids) == (((0, 50), (50, 0)), (1, 1), ("GPU-a", "GPU-b"))


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"links": "X Z; Z X"}, f"metadata.annotations[{GPU_LINKS}]: row 0, column 1 is 'Z'"),
        ({"score": "{"}, f"metadata.annotations[{HAMI_SCORE}]: cannot read GPU scores"),
        ({"score": '[{"uuid": "a", "score": {"b": -1}}]'}, "has a score outside 0 to"),
        ({"score": json.dumps([{"uuid": str(i)} for i in range(65)])}, "has 65 GPUs; expected 64 at most"),
        ({"score": json.dumps(SCORES[:1]), "register": LEGACY}, f"its GPUs are not those of {HAMI_REGISTER}"),
        ({"register": "GPU-a,10"}, "GPU 0 is 'GPU-a,10'; expected UUID,count,devmem,devcore,type,numa,health"),
        ({"register": "[1]"}, f"metadata.annotations[{HAMI_REGISTER}]: cannot read a list of registered GPUs"),
    ],
)
def test_bad_annotation_is_a_problem(annotations: dict[str, str], said: str) -> None:
    """What cannot be read of an annotation is said with its key, and the rest is used."""
    read = facts(**annotations)
    assert read.links is None
    assert [said in str(problem) for problem in read.problems] == [True]


@given(st.text(max_size=60), st.sampled_from(["links", "score", "register"]))
def test_any_text_is_read_or_a_problem(text: str, name: str) -> None:
    """No text makes the reader fail; what is neither empty nor readable is a problem."""
    read = facts(**{name: text})
    assert not text or read.problems or read.links or read.uuids or not text.strip(":[] \t\n")


def test_nothing_is_said_without_annotations() -> None:
    """A node without such annotations has neither links nor problems."""
    assert read_gpu_facts({"other": "x"}) == GpuFacts()


def test_known_matrix_of_the_dgx1() -> None:
    """The DGX-1 with V100 has six NVLinks on each GPU, and its switches hold 0-1, 2-3, 4-5, 6-7."""
    matrix = KNOWN_MATRICES["DGX-1V"]
    assert [sum(nvlinks(matrix, i, j) for j in range(8)) for i in range(8)] == [6] * 8
    switches = [(i, j) for i in range(8) for j in range(i + 1, 8) if matrix.scores[i][j] % 100 == Path.PIX]
    assert switches == [(0, 1), (2, 3), (4, 5), (6, 7)]


TOPO = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPIX\t0-55,112-167\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t56-111,168-223\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
NIC Legend:
  NIC0: mlx5_0
"""
OLDER = """\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPHB\t0-7\tN/A
GPU1\tPHB\t X \t0-7\tN/A
"""


@pytest.mark.parametrize(("shown", "zones"), [(TOPO, (0, 1)), (OLDER, ()), (OLDER.replace("N/A", "0"), (0, 0))])
def test_documented_command_writes_what_is_read(shown: str, zones: tuple[int, ...]) -> None:
    """The command in docs/gpu-links.md turns what `nvidia-smi topo -m` shows into the annotation."""
    command = PAGE.read_text().split("```shell\nnvidia-smi topo -m | ")[1].split("\n```")[0]
    done = subprocess.run(["sh", "-c", command], input=shown, capture_output=True, text=True, check=True)
    matrix = read_matrix(done.stdout)
    assert matrix.scores[0][1] == matrix.scores[1][0] == (1200 if shown == TOPO else Path.PHB)
    assert (matrix.gpus, matrix.zones, done.stderr) == (2, zones, "")


def test_documented_example_is_read() -> None:
    """The annotation in docs/gpu-links.md is one that Muster reads."""
    matrix = read_matrix(PAGE.read_text().split("muster.dev/gpu-links='")[1].split("'")[0])
    assert (matrix.gpus, nvlinks(matrix, 0, 1), matrix.zones) == (4, 2, (0, 0, 1, 1))
