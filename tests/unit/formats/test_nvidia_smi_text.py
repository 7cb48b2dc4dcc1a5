"""Saved tables of nvidia-smi."""

from pathlib import Path

import pytest

from collectors.formats.nvidia_smi_text import looks_like, read

FIXTURES = Path(__file__).parents[2] / "fixtures/devices"
TABLE = (FIXTURES / "h200-load-table.txt").read_text()
APPS = [(10291, 2566 << 20), (10293, 1542 << 20), (10309, 28234 << 20)]
OLD_TABLE = """\
| NVIDIA-SMI 460.32.03    Driver Version: 460.32.03    CUDA Version: 11.2     |
|   0  Tesla V100-SXM2...  On   | 00000000:06:00.0 Off |                    0 |
| N/A   36C    P0    43W / 300W |      0MiB / 16160MiB |      0%      Default |
|                               |                      |                  N/A |
|   1  ERR!                On   | 00000000:07:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |   1234MiB / 16160MiB |   ERR!         ERR! |
|    0   N/A  N/A     12345      C   python                           1234MiB |
"""


def test_the_table() -> None:
    saved = read(TABLE)
    ((facts, sample),) = saved.rows
    assert (facts.name, facts.bus_id, facts.driver) == ("NVIDIA H200", "00000000:83:00.0", "590.48.01")
    assert (sample.utilization, sample.power, sample.temperature, sample.memory_used) == (100, 628.0, 52, 32362 << 20)
    assert [(app.pid, app.memory) for app in saved.apps] == APPS


def test_an_older_table_with_errors_in_it() -> None:
    saved = read(OLD_TABLE)
    first, second = saved.rows
    assert (first.facts.name, first.sample.power, first.sample.odd) == ("Tesla V100-SXM2...", 43.0, None)
    assert second.sample.odd is not None
    assert (second.facts.gpu, second.sample.odd["utilization"]) == (1, "ERR!")
    assert [(app.pid, app.bus_id) for app in saved.apps] == [(12345, "00000000:06:00.0")]
    assert [(fault.gpu, fault.bus_id) for fault in saved.faults] == [(1, "00000000:07:00.0")]


@pytest.mark.parametrize("text", ["", "hello\nworld", "index,loss\n1,2\n", '{"loss": 1}', "pid, rank\n7, 1\n"])
def test_another_text_is_none_of_them(text: str) -> None:
    assert not looks_like(text)
    assert not any(read(text))
