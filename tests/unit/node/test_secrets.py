"""What must not leave a node with a command line."""

import time

import pytest

from collectors.node import redact
from collectors.node.redact import LogRedactor, command, event_text, shapes, sounds_secret

SECRET = "hunter2butlonger"


@pytest.mark.parametrize(
    "words",
    [
        ["train.py", f"huggingface.token={SECRET}"],
        ["train.py", f"auth.password={SECRET}"],
        ["train.py", f"+trainer.logger.api_key={SECRET}"],
        ["train.py", "--config", f'{{"api_key": "{SECRET}", "lr": 1}}'],
        ["train.py", "--config", f'{{"auth": {{"clientSecret":"{SECRET}"}}}}'],
        ["bash", "-c", f"export WANDB_API_KEY={SECRET}; python train.py --lr 1"],
        ["bash", "-c", f"export WANDB_API_KEY='{SECRET} {SECRET}' && python train.py"],
        ["bash", "-c", f"python train.py --api-key {SECRET} --lr 1"],
        ["sh", "-c", f"curl -H 'Authorization: Bearer {SECRET}' https://host/x"],
        ["sh", "-c", f"git clone https://me:{SECRET}@host/x"],
        ["git", "clone", f"https://me:p@{SECRET}@host/x"],
        ["train.py", "hf_" + "a1B2" * 8],
        ["train.py", "note=ghp_" + "a1B2" * 9],
        ["train.py", "sk-proj-" + "a1B2" * 8],
        ["train.py", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"],
        ["train.py", "-----BEGIN RSA PRIVATE KEY-----\n" + SECRET + "\n-----END RSA PRIVATE KEY-----"],
        ["train.py", f"--db-passwd={SECRET} {SECRET}"],
        ["train.py", "--secret", SECRET],
        ["python", "-c", f"import os; os.environ['WANDB_API_KEY'] = '{SECRET}'"],
        ["python", "-c", f"os.environ.setdefault('HF_TOKEN', '{SECRET}')"],
        ["mpirun", "-genv", "WANDB_API_KEY", SECRET, "python"],
        ["sh", "-c", f"mpirun -genv WANDB_API_KEY {SECRET} python"],
        ["sh", "-c", f'export A_TOKEN=a"{SECRET}"b; x'],
        ["sh", "-c", f"export A_TOKEN=a\\ {SECRET}; x"],
        ["sh", "-c", f"export A_TOKEN=$(echo {SECRET}); x"],
        ["train.py", f"secrets.hf={SECRET}"],
        ["train.py", "--api-keys", SECRET],
        ["train.py", f'{{"secrets": {{"hf": "{SECRET}"}}, "lr": 1}}'],
        ["train.py", f'{{"access_tokens": ["{SECRET}", "{SECRET}"]}}'],
        ["train.py", f"https://bucket/x.tar?X-Amz-Date=1&X-Amz-Signature={SECRET}"],
        ["train.py", f"https://store/x.tar?sv=1&sig={SECRET}%3D&se=2"],
        ["train.py", "wandb_v1_" + "a1B2" * 8],
        ["sh", "-c", "wandb login " + "a1b2" * 10 + " && python train.py"],
        ["curl", "-s", "-u", f"me:{SECRET}", "https://host/x"],
        ["sh", "-c", f"sshpass -p {SECRET} ssh -p 22 host"],
    ],
)
def test_no_secret_is_shown(words: list[str]) -> None:
    shown = redact.command(words)
    assert SECRET not in shown
    assert "a1b2a1b2" not in shown.lower()
    assert "c2lnbmF0dXJl" not in shown
    assert "<redacted>" in shown or "://host/x" in shown


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-m", "train", "--tokenizer", "gpt2", "--max-tokens", "9", "--lr=1e-4"],
        ["train.py", "model.tokenizer.name=gpt2", "data.keys_first=1", "trainer.max_tokens=100"],
        ["train.py", '{"tokenizer": "gpt2", "tokens": 5}'],
        ["bash", "-c", "cd /work && python train.py --tokenizer=gpt2 --use-auth --lr 1"],
        ["train.py", "--path", "/data/hf_models/sk-learn", "--url", "https://host:8080/x@y"],
        ["train.py", "--monitor", "loss", "passes=3", "author=me", "bypass=1"],
        ["sh", "-c", 'echo "A=abc" "b c"; x \'d\' "e"'],
        ["sh", "-c", "export MAX_TOKENS=[1,2] && python -c \"x['A'], y['B']\" && f(A_B, 'c')"],
        ["train.py", "data.secretary.name=a", "keys=[a,b]", '{"tokens": ["a"], "B_C": {"d": "e"}}'],
    ],
)
def test_what_is_no_secret_stays(words: list[str]) -> None:
    assert redact.command(words) == " ".join(words)


PUMPS = (
    "a", "-", "_", "=", "token=", "token ", '"', "\\", " ", "eyJ-", "://a", "sk-", "a.", '{"key":', "token=[",
    "token={", "token=$(", 'token=a"b', "token='a", "token=\\ ", "A_KEY ", "A_KEY',", "secret.", "?sig=a",
    "hooks.slack.com/", "a1b2",
)  # fmt: skip
"""What is repeated to two megabytes."""


@pytest.mark.parametrize("pump", PUMPS)
def test_one_very_long_argument_takes_no_time(pump: str) -> None:
    word = pump * (2_000_000 // len(pump))
    began = time.thread_time()
    assert len(command([word, "--token", word], 2048)) <= 2048
    shapes(word[:65536])
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize(
    "name", ["token", "hf.token", "HF_TOKEN", "accessToken", "--api-key", "a.b.auth", "x_pat", "pwd"]
)
def test_names_that_sound_secret(name: str) -> None:
    assert sounds_secret(name)


@pytest.mark.parametrize("name", ["tokenizer", "tokens", "author", "path", "keys", "compass", "", "a.", "rank"])
def test_names_that_do_not(name: str) -> None:
    assert not sounds_secret(name)


LOGGED = (
    f"connecting with password={SECRET}",
    f"> Authorization: Bearer {SECRET}",
    f"+ export AWS_SECRET_ACCESS_KEY={SECRET}",
    f"api_keys=[{SECRET}] tokens 4096",
    f"{{'Secrets.HF': '{SECRET}'}}",
    f"$ curl -s -u me:{SECRET} https://host/x",
    "$ wandb login " + "a1b2" * 10,
)


@pytest.mark.parametrize("line", LOGGED)
def test_a_line_and_an_event_of_a_log_lose_what_a_command_line_would(line: str) -> None:
    for shown in (event_text(line), *LogRedactor().shown([line])):
        assert SECRET not in shown
        assert "a1b2" not in shown
        assert "<redacted>" in shown


KEY = ("-----BEGIN RSA PRIVATE KEY-----", *["MIIEowIBAAKCAQEA" * 4] * 20, "-----END RSA PRIVATE KEY-----")


@pytest.mark.parametrize("cuts", [(), (5,), (0, 1, 22), (21, 22)])
def test_a_private_key_in_a_log_is_hidden_whole_however_its_lines_arrive(cuts: tuple[int, ...]) -> None:
    redactor, shown, lines = LogRedactor(), list[str](), [*KEY, "step 1", "step 2"]
    for start, end in zip((0, *cuts), (*cuts, len(lines)), strict=True):
        shown += redactor.shown(lines[start:end])
    assert shown == ["<redacted>"] * len(KEY) + ["step 1", "step 2"]


def test_a_key_s_end_hides_what_came_before_it_and_a_beginning_alone_hides_little() -> None:
    assert LogRedactor().shown([*KEY[3:], "step 1"]) == ["<redacted>"] * (len(KEY) - 3) + ["step 1"]
    assert LogRedactor().shown([KEY[0], *["step"] * 300])[-1] == "step"


def test_the_literal_check_before_the_search_misses_no_name() -> None:
    for word in (*redact._ENDINGS, *redact._WORDS, "api_keys", "refresh-tokens"):
        assert redact.settings(f"x_{word}=hunter2") == f"x_{word}={redact.REDACTED}"
