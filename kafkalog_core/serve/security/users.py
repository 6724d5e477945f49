"""Who may connect: users and what proves their passwords, from a file or from the metadata log of a cluster.

Passwords are not kept: a user has, for each hash, what SCRAM keeps (RFC 5802, KIP-84), and a password that PLAIN sends
is checked against that.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import SettingError
from kafkalog_core.format.names import METADATA_TOPIC
from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.topics.cluster_names import SCRAM_MECHANISMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "ITERATIONS",
    "MECHANISMS",
    "SCRAM_HASHES",
    "Credential",
    "Users",
    "passwords_of",
    "users_of_cluster",
]

SCRAM_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS: Final = ("PLAIN", *SCRAM_HASHES)
"""Names of SASL mechanisms, as clients spell them."""
ITERATIONS: Final = range(4096, 16384 + 1)
"""The iterations that a broker takes (ScramMechanism, ScramControlManager); more of them take longer."""
_SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Credential:
    """What a server keeps of a password for one hash."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def of_password(
        cls, password: bytes, mechanism: str, salt: bytes, iterations: int = ITERATIONS.start
    ) -> Credential:
        """Return what is kept of a password."""
        salted = hashlib.pbkdf2_hmac(SCRAM_HASHES[mechanism], password, salt, iterations)
        return cls.of_salted_password(salted, mechanism, salt, iterations)

    @classmethod
    def of_salted_password(cls, salted: bytes, mechanism: str, salt: bytes, iterations: int) -> Credential:
        """Return what is kept of a password that a client has salted (`ScramFormatter`)."""
        digest = SCRAM_HASHES[mechanism]
        client_key = hmac.digest(salted, b"Client Key", digest)
        return cls(
            salt, hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest), iterations
        )


class Users:
    """Users by name. Network threads read them while a request changes them."""

    def __init__(self, then: Users | None = None) -> None:
        """Begin without users of its own. then: users that count as well, with all later changes."""
        self._credentials: dict[tuple[str, str], Credential] = {}
        self._then = then

    def __len__(self) -> int:
        """Return the number of users."""
        return len({user for _, user in self.kept()})

    def add(self, mechanism: str, user: str, credential: Credential) -> None:
        """Add or replace what is kept of a user's password for a SCRAM mechanism."""
        self._credentials[mechanism, user] = credential

    def remove(self, mechanism: str, user: str) -> None:
        """Remove what is kept of a user's password for a SCRAM mechanism, if anything is."""
        self._credentials.pop((mechanism, user), None)

    def described(self) -> dict[str, dict[str, int]]:
        """Return the iterations by SCRAM mechanism of each user."""
        found: dict[str, dict[str, int]] = {}
        for (mechanism, user), credential in sorted(self.kept().items()):
            found.setdefault(user, {})[mechanism] = credential.iterations
        return found

    def kept(self) -> dict[tuple[str, str], Credential]:
        """Return what is kept of each password, by mechanism and user."""
        others = {} if self._then is None else self._then.kept()
        return {**others, **self._credentials}

    def add_password(self, user: str, password: str, new_salt: Callable[[int], bytes]) -> None:
        """Add a user of every mechanism. new_salt: returns that many random bytes."""
        for mechanism in SCRAM_HASHES:
            self.add(mechanism, user, Credential.of_password(password.encode(), mechanism, new_salt(_SALT_BYTES)))

    def mechanisms(self) -> tuple[str, ...]:
        """Return the mechanisms by which any user can connect."""
        kept = {mechanism for mechanism, _ in self.kept()}
        return tuple(each for each in MECHANISMS if each in kept or (each == "PLAIN" and kept))

    def credential(self, mechanism: str, user: str) -> Credential | None:
        """Return what is kept for a SCRAM mechanism; None: the user is unknown to it, or has too many iterations."""
        found = self._credentials.get((mechanism, user))
        if found is None:
            return None if self._then is None else self._then.credential(mechanism, user)
        return found if found.iterations in ITERATIONS else None

    def has_password(self, user: str, password: bytes) -> bool:
        """Return whether a user has this password.

        For an unknown user it takes as long: else the time would tell which users there are.
        """
        known = self._plain_credential(user)
        is_user = known is not None
        if known is None:  # hash the password all the same, as if it were another user's
            known = next(filter(None, map(self._plain_credential, self._names())), None)
        if known is None:
            return False
        mechanism, credential = known
        given = Credential.of_password(password, mechanism, credential.salt, credential.iterations)
        return hmac.compare_digest(given.stored_key, credential.stored_key) and is_user

    def _names(self) -> Iterator[str]:
        """Yield the name of one user, if there are any."""
        yield from (user for _, user in tuple(self._credentials)[:1])  # at once: a request may change it meanwhile
        if self._then is not None:
            yield from self._then._names()  # noqa: SLF001 - of its own class

    def _plain_credential(self, user: str) -> tuple[str, Credential] | None:
        """Return what a password that PLAIN sends is checked against, and its mechanism; None: the user is unknown."""
        found = ((mechanism, self.credential(mechanism, user)) for mechanism in SCRAM_HASHES)
        return next(((mechanism, each) for mechanism, each in found if each is not None), None)


def passwords_of(lines: Iterable[str], path: str) -> dict[str, str]:
    """Return passwords by user from lines of NAME:PASSWORD; empty lines and lines with a number sign are comments.

    Raises SettingError with the number of a line that is none of these, or names a user again.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        user, colon, password = text.partition(":")
        if not colon or not user or not password:
            raise SettingError(f"{path}, line {number}: expected NAME:PASSWORD")
        if user in found:
            raise SettingError(f"{path}, line {number}: user {user} is there already")
        found[user] = password
    if not found:
        raise SettingError(f"{path} has no users; write a line NAME:PASSWORD for each")
    return found


def users_of_cluster(log_dirs: Iterable[str]) -> Users:
    """Return the SCRAM users in the metadata log of a cluster (KIP-900); before KRaft they are in ZooKeeper."""
    users = Users()
    for log_dir in log_dirs:
        kept: dict[tuple[str, str], Credential] = {}
        for each in read_image(f"{log_dir}/{METADATA_TOPIC}-0").image.users.values():
            mechanism = SCRAM_MECHANISMS.get(each.mechanism)
            if mechanism is not None and each.iterations in ITERATIONS:
                keys = each.stored_key, each.server_key
                kept[mechanism, each.user] = Credential(each.salt, *keys, each.iterations)
        for (mechanism, user), credential in kept.items():
            users.add(mechanism, user, credential)
        if kept:
            break
    return users
