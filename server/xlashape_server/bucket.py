"""Modules in a bucket that any number of servers share, with the local directory as a cache in front.

    s3://BUCKET/PREFIX    gs://BUCKET/PREFIX    az://CONTAINER/PREFIX    file:/DIRECTORY

An object PREFIX/v2/3f/3fa9… is the file of a module in version 2 of its format (`stored_file`). Its name is the digest
of its content, so an object never changes, and a cache cannot hold other content than the bucket. An upload is
acknowledged once the bucket has it. Objects are created and never overwritten: where two servers store the same
content, the second finds the object and checks it.

- Content that is read from the bucket is checked, then kept in the cache. Content that fails the check is not used and
  not removed, since the fault may lie in the network. An upload of the same content repairs the object.
- A module in the cache is looked up in the bucket again after a minute, since another server may have deleted it. Where
  the bucket does not answer, the cache does.
- Objects are not evicted from a bucket. A lifecycle rule of the bucket says how long they live.

Addresses, credentials and regions are those of the cloud's own tools: AWS_…, GOOGLE_…, AZURE_… in the environment, or
the role of the machine.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from xlashape.errors import FieldPath, NotFoundError, UnavailableError, XlashapeError
from xlashape.extras import require
from xlashape_server.config import Config
from xlashape_server.scratch import is_scratch
from xlashape_server.store import Store
from xlashape_server.stored_file import DamagedError, Stored, check_whole, faults, read_file

if TYPE_CHECKING:
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_TRUST_SECONDS = 60.0  # seconds for which a cached module is used without asking the bucket
_MAX_TRUSTED = 100_000  # modules whose last lookup in the bucket is remembered
_CHECK_SECONDS = 10.0  # seconds between checks that the bucket answers
_ENDPOINTS = (
    "AWS_ENDPOINT_URL_S3",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT",
    "AZURE_STORAGE_ENDPOINT",
    "AZURE_ENDPOINT",
    "GOOGLE_BASE_URL",
)
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<\n]*))?")  # of Amazon and Azure
_NO_BUCKET = re.compile(r"<Code>(NoSuchBucket|ContainerNotFound)</Code>|specified container does not exist")
_MESSAGE = re.compile(r'"message": ?"([^"]*)"')  # of Google
_PROBE = "xlashape-probe"  # a folder that does not exist; listing it is a cheap check
_PIECE_BYTES = 1 << 20

# A call waits for the bucket at most about a quarter of a minute.
_CLIENT: ClientConfig = {"connect_timeout": timedelta(seconds=3), "timeout": timedelta(seconds=30)}
_RETRIES: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=12),
    "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=3), "base": 2},
}
# A check has a connection of its own that gives up soon, so that it tells when the bucket answers again.
_PROBE_CLIENT: ClientConfig = {"connect_timeout": timedelta(seconds=2), "timeout": timedelta(seconds=4)}
_PROBE_RETRIES: RetryConfig = {**_RETRIES, "max_retries": 1, "retry_timeout": timedelta(seconds=1)}


def open_store(config: Config) -> Store:
    """The store that `config` describes, whose directory is given. UnavailableError if the packages for a bucket are
    not installed.
    """
    if not config.store:
        return Store.of(config)
    require("store", "a store in a bucket")
    return BucketStore(
        config.store_directory,
        config.store,
        max_bytes=config.store_bytes,
        max_age=config.store_age_seconds,
        is_durable=not is_scratch(config.store_directory),
    )


class BucketStore(Store):
    """The store in the bucket at `url`, with a cache in `directory`. `max_bytes` and `max_age` are those of the
    cache.
    """

    def __init__(
        self, directory: str | Path, url: str, *, max_bytes: int, max_age: float, is_durable: bool = False
    ) -> None:
        super().__init__(directory, max_bytes=max_bytes, max_age=max_age, is_durable=is_durable)
        self._bucket = _bucket(url, _CLIENT, _RETRIES)
        self._probed = _bucket(url, _PROBE_CLIENT, _PROBE_RETRIES)
        self._trusted: OrderedDict[str, float] = OrderedDict()
        self._trust_lock = threading.Lock()
        self._checked_at = float("-inf")

    def find(self, name: str, *, field: str | FieldPath | None = None) -> Stored:
        """See `Store`."""
        self._make_present(name, field)
        return super().find(name, field=field)

    def read(
        self, name: str, *, offset: int = 0, limit: int | None = None, field: str | FieldPath | None = None
    ) -> bytes:
        """See `Store.read`. A damaged file in the cache is replaced by the object."""
        self._make_present(name, field)
        try:
            return super().read(name, offset=offset, limit=limit, field=field)
        except NotFoundError:
            self._fetch(self.digest_of(name), name, field)
            return super().read(name, offset=offset, limit=limit, field=field)

    def delete(self, name: str, *, field: str | FieldPath | None = None) -> None:
        """Removes a module from the bucket and the cache. Other servers answer from their caches for up to a minute."""
        sha256 = self.digest_of(name, field=field)
        was_there = self._has(sha256)
        with suppress(FileNotFoundError), _bucket_faults():
            self._bucket.delete(_key(sha256))
        self._forget(sha256)
        try:
            super().delete(name, field=field)
        except NotFoundError:
            if not was_there:
                raise

    def keep(
        self, temporary: Path, sha256: str, size: int, facts: dict[str, str | int], created: float
    ) -> tuple[Stored, bool]:
        """See `Store`. Returns once the bucket has the module."""
        is_new = self._put(temporary, sha256)
        stored, _ = super().keep(temporary, sha256, size, facts, created)
        self._trust(sha256)
        return stored, not is_new

    def check_shared(self) -> None:
        """UnavailableError if the bucket does not answer. It is asked every ten seconds."""
        if time.monotonic() - self._checked_at > _CHECK_SECONDS:
            with _bucket_faults(needs_bucket=True):
                next(iter(self._probed.list(_PROBE)), None)  # pyright: ignore[reportUnknownArgumentType]  # what it holds is not used
            self._checked_at = time.monotonic()

    def _make_present(self, name: str, field: str | FieldPath | None) -> None:
        """Makes sure that the cache has the module. NotFoundError if the bucket does not have it."""
        sha256 = self.digest_of(name, field=field)
        try:
            with self._opened(name, field):
                pass
        except NotFoundError:
            self._fetch(sha256, name, field)
            return
        if time.monotonic() - self._trusted.get(sha256, float("-inf")) < _TRUST_SECONDS:
            return
        try:
            is_there = self._has(sha256)
        except UnavailableError:
            return  # the content is right in any case; only a deletion would be noticed later
        if not is_there:
            with suppress(NotFoundError):
                super().delete(name)
            raise self._missing(name, field)
        self._trust(sha256)

    def _fetch(self, sha256: str, name: str, field: str | FieldPath | None) -> None:
        """Copies an object to the cache. NotFoundError if there is none, UnavailableError if it is not what was
        stored.
        """
        try:
            self._copy_here(sha256)
        except FileNotFoundError:
            self._forget(sha256)
            raise self._missing(name, field) from None
        except DamagedError as damage:
            raise UnavailableError(f"the object in the bucket is damaged: {damage}; upload the module again") from None

    def _copy_here(self, sha256: str) -> None:
        """FileNotFoundError if there is no object, DamagedError if it is damaged."""
        with super().upload() as upload:
            with _bucket_faults():
                stream = self._bucket.get(_key(sha256)).stream(min_chunk_size=_PIECE_BYTES)
                temporary = upload.copy(bytes(piece) for piece in stream)
            with faults():
                with temporary.open("rb") as file:
                    check_whole(file, read_file(file), sha256)
                size = temporary.stat().st_size
            with self._locked():
                self._take_over(temporary, self._path(sha256), size)
        self._trust(sha256)

    def _put(self, file: Path, sha256: str) -> bool:
        """Creates the object. False if the bucket had the same content already."""
        from obstore.exceptions import AlreadyExistsError  # the extra `store`

        key = _key(sha256)
        try:
            with _bucket_faults(needs_bucket=True):
                self._bucket.put(key, file, mode="create", use_multipart=False)
        except AlreadyExistsError:
            try:
                self._copy_here(sha256)
            except (FileNotFoundError, DamagedError):
                with _bucket_faults(needs_bucket=True):
                    self._bucket.put(key, file, use_multipart=False)
                return True
            return False
        return True

    def _has(self, sha256: str) -> bool:
        # An answer to HEAD has no body, which says whether it is the bucket that is missing; one to GET has.
        for question in (self._bucket.head, self._bucket.get):
            with suppress(FileNotFoundError), _bucket_faults():
                question(_key(sha256))
                return True
        return False

    def _trust(self, sha256: str) -> None:
        with self._trust_lock:
            self._trusted[sha256] = time.monotonic()
            self._trusted.move_to_end(sha256)
            if len(self._trusted) > _MAX_TRUSTED:
                self._trusted.popitem(last=False)

    def _forget(self, sha256: str) -> None:
        with self._trust_lock:
            self._trusted.pop(sha256, None)


def _key(sha256: str) -> str:
    return f"v2/{sha256[:2]}/{sha256}"  # servers that write another version of the format use other keys


def _bucket(url: str, client: ClientConfig, retries: RetryConfig) -> ObjectStore:
    """The bucket at `url`. UnavailableError if credentials or a region are missing in the environment."""
    from obstore.store import LocalStore, from_url  # pyright: ignore[reportUnknownVariableType]  # the extra `store`; the type has unknown keywords

    if url.startswith("file:"):
        with faults():
            return LocalStore(Path(url.removeprefix("file:").removeprefix("//")), mkdir=True)
    options: ClientConfig = {**client, "allow_http": any(each.startswith("http://") for each in _endpoints())}
    with _bucket_faults():
        return from_url(url, client_options=options, retry_config=retries)


def _endpoints() -> Iterator[str]:
    """The addresses of buckets in the environment. Whoever gives one without TLS wants it: emulators have none."""
    for name in _ENDPOINTS:
        yield os.environ.get(name, "")
    if os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true"):
        yield os.environ.get("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:10000")
    # Google's may also be in the file of credentials, or in its content.
    contents = [os.environ.get("GOOGLE_SERVICE_ACCOUNT_KEY", "")]
    for name in ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"):
        with suppress(OSError, UnicodeDecodeError):
            contents.append(Path(os.environ[name]).read_text(encoding="utf-8") if name in os.environ else "")
    for content in contents:
        with suppress(ValueError, AttributeError):
            yield str(json.loads(content).get("gcs_base_url", ""))


@contextmanager
def _bucket_faults(*, needs_bucket: bool = False) -> Generator[None]:
    """Errors of the bucket within the block become UnavailableError.

    AlreadyExistsError passes unchanged; so does FileNotFoundError, unless the bucket itself is missing: the answer says
    so, or the request can fail for nothing else.
    """
    from obstore.exceptions import (  # the extra `store`
        AlreadyExistsError,
        BaseError,
        PermissionDeniedError,
        UnauthenticatedError,
    )

    try:
        yield
    except (AlreadyExistsError, XlashapeError):
        raise
    except FileNotFoundError as error:
        if needs_bucket or _NO_BUCKET.search(str(error)):
            raise UnavailableError(f"there is no such bucket: {_told(error)}") from error
        raise
    except (PermissionDeniedError, UnauthenticatedError, PermissionError) as error:
        raise UnavailableError(f"the bucket refuses access: {_told(error)}") from error
    except (BaseError, OSError, ValueError) as error:
        # A list that was refused is an error of no kind of its own.
        status = _STATUS.search(str(error))
        if status is not None and status[1] == "404":
            raise UnavailableError(f"there is no such bucket: {_told(error)}") from error
        if status is not None and status[1] in ("401", "403"):
            raise UnavailableError(f"the bucket refuses access: {_told(error)}") from error
        raise UnavailableError(f"the bucket cannot be used: {_told(error)}") from error


def _told(error: Exception) -> str:
    """What the service says of an error, or else the first line of the error."""
    text = str(error)
    told = _CODE.search(text) or _MESSAGE.search(text)
    line = ": ".join(filter(None, told.groups())) if told else (text.splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 200 else line[:200] + "…"
