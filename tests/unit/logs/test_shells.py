"""A shell's word about a signal, in other languages than English."""

import pytest

from collectors.node.logs.families import shells
from tests.support.logs import only, parse


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("已杀死", "KILL"),
        ("run.sh: 第 12 行: 4711 已杀死               python train.py --epochs 3", "KILL"),
        ("run.sh: 行 12:  4711 已杀死               python train.py", "KILL"),
        ("./run.sh: ligne 3 : 4711 Processus arrêté      python train.py", "KILL"),
        ("run.sh: Zeile 7:  4711 Getötet                python train.py", "KILL"),
        ("Убито", "KILL"),
        ("段错误 (核心已转储)", "SEGV"),
        ("Speicherzugriffsfehler (Speicherabzug geschrieben)", "SEGV"),
        ("Violación de segmento (`core' generado)", "SEGV"),
        ("セグメンテーション違反 (コアダンプ)", "SEGV"),
        ("已放弃 (核心已转储)", "ABRT"),
        ("run.sh: línea 4:  812 Abortado                python train.py", "ABRT"),
        ("run.sh: línea 4:  812 Abortado                (`core' generado) python train.py", "ABRT"),
    ],
)
def test_words_of_shells(text: str, signal: str) -> None:
    assert shells.signal(text) == signal
    told = parse(f"step 1 loss 2.0\n{text}\n")
    assert [event.data["signal"] for event in told if event.kind == "process.signal"] == ([signal])


@pytest.mark.parametrize(
    "text",
    [
        "中止",
        "Abandon",
        "Abgebrochen",
        "任务 12 已中止 3 个旧的检查点",
        "Le fichier tué par l'utilisateur n'existe plus",
        "Morto che parla: 47",
        "数据集里有 12 个段错误的样本被跳过",
        "Erreur de segmentation d'image : 0.12",
    ],
)
def test_everyday_words_are_none(text: str) -> None:
    assert parse(f"{text}\nstep 2 loss 1.9\n") == []


def test_a_line_in_english_is_not_asked() -> None:
    assert shells.signal("Killed") == ""
    assert only(parse("Killed\n"), "process.signal").data["signal"] == "KILL"
