"""What terminals, mails and web pages do to a line on its way: colours, escapes, marks of quoting."""

from __future__ import annotations

from collectors.node import late_re as re

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78cDEHM])")
_REMAINS = re.compile(
    r"(?:\^\[|\\(?:x1b|033|e|u001b)|\u241b|\ufffd)\[\d{0,3}(?:;\d{1,3}){0,4}[mK]"
    r"|\[(?:0?\d|[34]\d|9[0-7])(?:;\d{1,3}){0,4}m(?![\]\w]| ?\d)"
    r"|\[(?:0?\d|[34]\d|9[0-7])(?:;\d{1,3}){0,4}m(?=\[|\(|[A-Z][a-z]|ERROR|INFO|WARN)"
)
"""Colours whose escape character was written out, or was lost on the way through a web page."""
_ENTITY = re.compile(r"&(lt|gt|quot|amp|apos|nbsp|#39|#x27|#34);")
_ENTITIES = {
    "lt": "<",
    "gt": ">",
    "quot": '"',
    "amp": "&",
    "nbsp": " ",
    "#34": '"',
    **dict.fromkeys(("apos", "#39", "#x27"), "'"),
}
_TYPOGRAPHIC = {0x201C: '"', 0x201D: '"'}
"""Quotes as word processors set them, around the file's name in a traceback."""
_MARKED = re.compile(r"(?:[-*] )?(?:`{1,3}|\*\*)(?=[A-Z\[a-z])")
"""Emphasis and code of Markdown in front of a line that somebody quoted."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_QUOTED = re.compile(r"(?:> ?){1,4}")


def cleaned(text: str) -> str:
    """A line without colours, control characters and the escapes of HTML."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    text = _CONTROLS.sub("", text).rstrip("\r\n")
    if "[" in text:
        text = _REMAINS.sub("", text)
    if "File \u201c" in text:
        text = text.translate(_TYPOGRAPHIC)
    if "&" in text:
        text = _ENTITY.sub(lambda found: _ENTITIES[found.group(1)], text)
    return text


def unquoted(text: str) -> str:
    """A line without the marks that a mail or a page puts in front of what it quotes; the indentation is the line's."""
    if text.startswith(">Traceback ("):
        return text[1:]
    if text.startswith("> ") or text == ">":
        text = text[_QUOTED.match(text).end() :]  # type: ignore[union-attr]
        text = text.lstrip(" ") if text.lstrip(" ").startswith("[") else text
    if text[:1] in ("`", "*", "-"):
        marked = _MARKED.match(text)
        text = text if marked is None else text[marked.end() :].rstrip("`* ")
    return text
