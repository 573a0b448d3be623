"""Objects in a bucket of Amazon, Google or Azure, or in a directory. obstore does the work.

    s3://BUCKET/PREFIX    gs://BUCKET/PREFIX    az://CONTAINER/PREFIX    file:/DIRECTORY

Endpoints, credentials and regions come from the variables AWS_…, GOOGLE_… or AZURE_… of the environment, as for the
cloud's own tools, or from the role of the machine. An endpoint without TLS is accepted, since emulators have no TLS.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from xlashape.base.extras import require
from xlashape.errors import UnavailableError, XlashapeError

if TYPE_CHECKING:
    from obstore import BytesStream
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]*)</Code>(?:\s*<Message>([^<\n]*))?")  # an error of Amazon or Azure
_NO_BUCKET = re.compile(r"<Code>(NoSuchBucket|ContainerNotFound)</Code>|specified container does not exist")
_MESSAGE = re.compile(r'"message": ?"([^"]*)"')  # an error of Google
_PROBE = "xlashape-probe"  # a folder that does not exist; listing it is a cheap check
_PIECE_BYTES = 1 << 20

# One request waits at most about a quarter of a minute for a bucket that cannot be reached or refuses, and half a
# minute for one that takes the request and does not answer.
_CLIENT: ClientConfig = {
    "connect_timeout": timedelta(seconds=3),
    "timeout": timedelta(seconds=30),
    "allow_http": True,
}
_RETRIES: RetryConfig = {
    "max_retries": 4,
    "retry_timeout": timedelta(seconds=12),
    "backoff": {"init_backoff": timedelta(milliseconds=50), "max_backoff": timedelta(seconds=3), "base": 2},
}
# A check gives up sooner than a call, so that it soon notices that the bucket answers again.
_PROBE_CLIENT: ClientConfig = {**_CLIENT, "connect_timeout": timedelta(seconds=2), "timeout": timedelta(seconds=4)}
_PROBE_RETRIES: RetryConfig = {**_RETRIES, "max_retries": 1, "retry_timeout": timedelta(seconds=1)}


class Bucket:
    """The objects at `url`.

    Each method raises UnavailableError if the bucket cannot be used. The constructor raises it if the packages for
    buckets are not installed, or credentials or a region are missing in the environment.
    """

    def __init__(self, url: str) -> None:
        require("store", "a store in a bucket")
        self._objects = _opened(url, _CLIENT, _RETRIES)
        self._probed = _opened(url, _PROBE_CLIENT, _PROBE_RETRIES)

    def get(self, key: str) -> Iterator[bytes] | None:
        """The content of the object with this key, in pieces; None if there is no such object."""
        with suppress(FileNotFoundError), _bucket_faults():
            return _pieces(self._objects.get(key).stream(min_chunk_size=_PIECE_BYTES))
        return None

    def has(self, key: str) -> bool:
        """Whether there is an object with this key."""
        # The answer to HEAD has no body, so it does not say whether the object or the whole bucket is missing. The
        # answer to GET does.
        for question in (self._objects.head, self._objects.get):
            with suppress(FileNotFoundError), _bucket_faults():
                question(key)
                return True
        return False

    def create(self, key: str, file: Path) -> bool:
        """Makes an object of a file. Returns False if there is an object with this key already; it stays."""
        from obstore.exceptions import AlreadyExistsError  # the extra `store`

        try:
            with _bucket_faults(needs_bucket=True):
                self._objects.put(key, file, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def replace(self, key: str, file: Path) -> None:
        """Makes an object of a file. It replaces an object with the same key."""
        with _bucket_faults(needs_bucket=True):
            self._objects.put(key, file, use_multipart=False)

    def delete(self, key: str) -> None:
        """Removes an object, if there is one."""
        with suppress(FileNotFoundError), _bucket_faults():
            self._objects.delete(key)

    def check(self) -> None:
        """Checks that the bucket answers. UnavailableError if not."""
        with _bucket_faults(needs_bucket=True):
            next(iter(self._probed.list(_PROBE)), None)  # pyright: ignore[reportUnknownArgumentType]  # what it holds is not used


def _pieces(stream: BytesStream) -> Iterator[bytes]:
    with _bucket_faults():
        for piece in stream:
            yield bytes(piece)


def _opened(url: str, client: ClientConfig, retries: RetryConfig) -> ObjectStore:
    from obstore.store import LocalStore, from_url  # pyright: ignore[reportUnknownVariableType]  # the extra `store`; the type has unknown keywords

    with _bucket_faults():
        if url.startswith("file:"):
            return LocalStore(Path(url.removeprefix("file:").removeprefix("//")), mkdir=True)
        return from_url(url, client_options=client, retry_config=retries)


@contextmanager
def _bucket_faults(*, needs_bucket: bool = False) -> Generator[None]:
    """Converts errors of the bucket within the `with` block to UnavailableError.

    AlreadyExistsError passes unchanged. So does FileNotFoundError, unless the bucket itself is missing: the text of the
    error says so, or with `needs_bucket` the request can fail for nothing else.
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
        # obstore has no error class for a listing that was refused, so the status is read from the text.
        status = _STATUS.search(str(error))
        if status is not None and status[1] == "404":
            raise UnavailableError(f"there is no such bucket: {_told(error)}") from error
        if status is not None and status[1] in ("401", "403"):
            raise UnavailableError(f"the bucket refuses access: {_told(error)}") from error
        raise UnavailableError(f"the bucket cannot be used: {_told(error)}") from error


def _told(error: Exception) -> str:
    """The message of the cloud's service within the text of an error, or else the first line of the text."""
    text = str(error)
    found = _CODE.search(text) or _MESSAGE.search(text)
    line = ": ".join(filter(None, found.groups())) if found else (text.splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 200 else line[:200] + "…"
