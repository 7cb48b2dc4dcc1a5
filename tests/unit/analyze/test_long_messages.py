"""An exception whose message has more lines than are kept."""

from pathlib import Path

from hangtop.diagnosis.verdict.verdict import diagnose
from hangtop.session.folder import job_of, read
from tests.support.logs import of_kind, parse

RAISED = (
    "[2026-12-10 15:50:54,953][__main__][ERROR] - Some error happened\nTraceback (most recent call last):\n"
    '  File "/x/train.py", line 121, in main\n    run()\n'
    "RuntimeError: Error(s) in loading state_dict for Net:\n"
)
ROWS = "".join(
    f"\tsize mismatch for layer.{number}.weight: torch.Size([512]) and torch.Size([256]).\n" for number in range(300)
)


def test_the_rest_of_its_message_is_nothing_that_comes_behind(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(RAISED + ROWS)
    (found,) = diagnose(job_of(read([tmp_path]))).findings
    assert found.kind == "rank_crashed"
    assert "state_dict" in found.summary


def test_what_comes_behind_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        RAISED + ROWS + "".join(f"epoch {number} done, saved\n" for number in range(300))
    )
    assert not diagnose(job_of(read([tmp_path]))).findings


def test_how_many_lines_it_has() -> None:
    (event,) = of_kind(parse(RAISED + ROWS), "python.exception")
    assert event.data["record_lines"] == 304
    (short,) = of_kind(parse(RAISED + "\tsize mismatch for a\n"), "python.exception")
    assert "record_lines" not in short.data


def test_another_traceback_behind_the_message_counts() -> None:
    assert len(of_kind(parse(RAISED + ROWS + RAISED), "python.exception")) == 2


def test_rays_older_word_for_a_node_without_memory(tmp_path: Path) -> None:
    told = "ray.memory_monitor.RayOutOfMemoryError: More than 95% of the memory on node n7 is used (15.9 / 16.8 GB).\n"
    (tmp_path / "train.log").write_text(told)
    assert [found.kind for found in diagnose(job_of(read([tmp_path]))).findings] == ["host_out_of_memory"]
