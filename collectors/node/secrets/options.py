"""Which options and words of well-known programs are secrets though no name in front of them says so.

``curl -u me:X``, ``mysql -pX``, ``wandb login X``: what a letter means differs from program to program, and ``-p`` is a
port, a folder or a partition for most. A new program is a row here. From the programs' manual pages.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple


class Rule(NamedTuple):
    """What is secret in the commands of some programs."""

    programs: str
    """Their names, between blanks."""
    options: str = ""
    """Options whose value is secret, be it the next word or behind ``=``. ``>`` and a sign at an option's end tell how
    much of the value is: ``:``, ``%``, ``,`` or ``/`` what comes behind the first such sign, ``@`` all if it holds an
    ``@``, ``=`` all if it holds a ``=`` (else it is a file), ``H`` what a header of a secret name says."""
    glued: str = ""
    """Letters of options whose value may, or must, follow without a blank, as in ``-pX``, with the same signs."""
    flags: str = ""
    """Letters of options without a value, which may stand in front of those: ``-sSu me:X``."""
    after: str = ""
    """Words that must have come before: ``docker login -p X`` is secret, ``docker run -p X`` a port. A letter with a
    dash may stand among others behind one dash."""
    kept: int = -1
    """How many plain words that come after those are no secret, while all further ones are; -1: none is one."""
    named: bool = False
    """Whether a plain word is secret where the plain word before it is a name that sounds so: ``set api_key X``."""
    settings: bool = False
    """Whether the value of every ``NAME=VALUE`` is secret."""
    leading: bool = False
    """Whether the options end at the first plain word, where another command begins."""
    pairs: str = ""
    """The sign behind which plain words are secret: ``/`` in ``scott/X@db``."""


_CURL = (
    "-u>: --user>: -U>: --proxy-user>: -x>@ --proxy>@ --preproxy>@ -b>= --cookie>= -E>: --cert>: -H>H --header>H "
    "--proxy-header>H"
)

RULES: Tuple[Rule, ...] = (
    # Fetching and logging in.
    Rule("curl", _CURL, "u>: U>: x>@ b>= E>: H>H", "#0123456aBfgGijIJklLMnNOpqRsSvVZ"),
    Rule("wget wget2", "--header>H"),
    Rule("aria2c", "--header>H"),
    Rule("http https xh xhs", "-a>: --auth>:", "a>:"),
    Rule("lftp", "-u>,", "u>,"),
    Rule("ncftpput ncftpget ncftpls ncftp", "-p", "p"),
    Rule("sshpass", "-p", "p", "v", leading=True),
    Rule("plink pscp psftp putty", "-pw"),
    Rule("smbclient rpcclient smbget", "-U>% --user>%", "U>%"),
    Rule("ldapsearch ldapmodify ldapadd ldapdelete ldapwhoami ldappasswd ldapcompare", "-w -s", "w", "cnvxZ"),
    Rule("xfreerdp wlfreerdp rdesktop", "/p -p", "p"),
    Rule("ipmitool ipmipower ipmi-sensors", "-P -k", "P"),
    Rule("racadm", "-p"),
    Rule("snmpget snmpwalk snmpbulkwalk snmpset snmpgetnext", "-A -X -c", "A X c"),
    # Files and keys.
    Rule("zip", "-P", "P", "0123456789rqjuvXy"),
    Rule("unzip", "-P", "P", "aCfjLlnopqtuvXZ"),
    Rule("7z 7za 7zr 7zz rar unrar", "", "p hp"),
    Rule("openssl", "-k -K -pass -passin -passout -hmac"),
    Rule("openssl", after="passwd", kept=0),
    Rule("ssh-keygen", "-N -P", "N P", "pqt"),
    Rule("keytool jarsigner", "-storepass -keypass -srcstorepass -deststorepass -srckeypass -destkeypass -new"),
    Rule("htpasswd", after="-b", kept=1),
    Rule("useradd usermod groupadd groupmod", "-p", "p"),
    # Data bases and queues.
    Rule(
        "mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mysqlsh mariadb mariadb-dump mariadb-admin",
        "",
        "p",
    ),
    Rule("mysqladmin mariadb-admin", after="password", kept=0),
    Rule("redis-cli valkey-cli keydb-cli", "-a", "a", named=True),
    Rule("mongo mongosh mongodump mongorestore mongoexport mongoimport", "-p", "p"),
    Rule("sqlcmd bcp isql", "-P", "P"),
    Rule("sqlplus sqlldr expdp impdp", pairs="/"),
    Rule("beeline impala-shell", "-p"),
    Rule("clickhouse-client influx", "-t"),
    Rule("etcdctl", "--user>:"),
    Rule("etcdctl", after="user add", pairs=":"),
    Rule("mosquitto_pub mosquitto_sub mosquitto_rr", "-P"),
    Rule("rabbitmqctl", after="add_user", kept=1),
    Rule("rabbitmqctl", after="change_password", kept=1),
    # Clouds, clusters and registries of images.
    Rule("docker podman nerdctl buildah skopeo oras crane helm singularity apptainer", "-p", "p", after="login"),
    Rule("skopeo podman buildah", "--creds>: --src-creds>: --dest-creds>:"),
    Rule("oc", "-p", "p", after="login"),
    Rule("az", "-p", "p", after="login"),
    Rule("az", "--value", after="secret"),
    Rule("aws", after="configure", named=True),
    Rule("aws", "--secret-string --secret-binary"),
    Rule("aws", "--value", after="put-parameter"),
    Rule("gcloud", after="activate-refresh-token", kept=1),
    Rule("kubectl oc", "--from-literal", after="create secret"),
    Rule("vault bao", after="login", kept=0),
    Rule("vault bao", after="put", settings=True),
    Rule("vault bao", after="patch", settings=True),
    Rule("vault bao", after="write", settings=True),
    Rule("rclone", after="config", named=True),
    Rule("rclone", after="obscure", kept=0),
    Rule("mc", after="alias set", kept=3),
    Rule("mc", after="host add", kept=3),
    Rule("fly flyctl wrangler doppler", after="secrets set", settings=True),
    Rule("heroku", after="config:set", settings=True),
    # What people train with.
    Rule("wandb comet comet_ml neptune clearml lightning kaggle", after="login", kept=0),
    Rule("gh", "-b --body", "b", after="secret set"),
    Rule("npm pnpm yarn git pip poetry conda", after="config", named=True),
    Rule("dvc", after="modify", named=True),
    Rule("ngrok", named=True),
    Rule("poetry", after="http-basic", kept=2),
    Rule("twine", "-p", "p"),
)


def _by_program() -> Dict[str, List[Rule]]:
    """The rules of each program."""
    found: Dict[str, List[Rule]] = {}
    for rule in RULES:
        for program in rule.programs.split():
            found.setdefault(program, []).append(rule)
    return found


BY_PROGRAM = _by_program()
