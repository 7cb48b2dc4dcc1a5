"""A shell's word that a signal ended a program, in other languages than English: glibc's names of signals, translated.

As whole lines, or as a script's shell says it (``run.sh: ligne 3 : 4711 Tué  python train.py``).
"""

from __future__ import annotations

from typing import Tuple

from collectors.node import late_re as re

_KILL = (
    "已杀死", "已殺死", "已砍掉", "强制终止", "強制終了", "죽었음", "Getötet", "Processus arrêté", "Tué", "Ucciso",
    "Matado", "Morto", "Убито", "Вбито", "Unicestwiony", "Geëlimineerd", "Zabito", "Dödad", "Dræbt", "Süreç durduruldu",
)  # fmt: skip
_SEGV = (
    "段错误", "段錯誤", "程式記憶體區段錯誤", "セグメンテーション違反", "세그멘테이션 오류", "세그먼테이션 오류",
    "Speicherzugriffsfehler", "Erreur de segmentation", "Violación de segmento", "Fallo de segmentación",
    "Errore di segmentazione", "Falha de segmentação", "Ошибка сегментирования", "Помилка сегментації",
    "Naruszenie ochrony pamięci", "Segmentatiefout", "Segmenteringsfel",
)  # fmt: skip
_ABRT = (
    "已放弃", "已中止", "已終止", "中止", "アボートしました", "중지됨", "Abgebrochen", "Abandon", "Abortado",
    "Cancelado", "Annullato", "Аварийный останов",
)  # fmt: skip
_DUMPED = r"\s{0,40}[(（][^()（）\r\n]{2,40}[)）](?: (?! )[^\r\n]{1,400}$)?"
_SHELL = r"[^\r\n:]{1,200}: [^\r\n:\d]{0,12}\d{1,6}[^\r\n:\d]{0,4}: {1,8}\d{1,9} "
"""``job.sh: 第 12 行: 4711 ``: script, line and process."""
_REST = r"(?: {2}[^\r\n]*|\s{0,60})$"
_WAYS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = (
    ("KILL", re.compile(r"^(?:%s)?(?:%s)(?:%s)?%s" % (_SHELL, "|".join(_KILL), _DUMPED, _REST))),
    ("SEGV", re.compile(r"^(?:%s)?(?:%s)(?:%s)?%s" % (_SHELL, "|".join(_SEGV), _DUMPED, _REST))),
    # these are everyday words, too: only behind a script's name, or with the word about the core
    ("ABRT", re.compile(r"^(?:%s(?:%s)(?:%s)?|(?:%s)%s)%s" % (
        _SHELL, "|".join(_ABRT), _DUMPED, "|".join(_ABRT), _DUMPED, _REST))),
)  # fmt: skip
STEMS = tuple(word.encode("utf-8") for word in (*_KILL, *_SEGV, *_ABRT))


def signal(text: str) -> str:
    """The signal that such a line names; empty for other lines, and for those in English."""
    return next((name for name, pattern in _WAYS if pattern.match(text)), "")
