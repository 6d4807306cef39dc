"""Downloading an archive with every wait bounded, so that a missing network is noticed in seconds."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import threading
import urllib.error
import urllib.request
import zipfile
from email.message import Message
from http.client import HTTPResponse
from pathlib import Path
from typing import IO

from gnnqlab.atomic import locked

__all__ = ["SUMS", "check_reachable", "fetch_archive"]

SUMS = "SHA256SUMS"
"""File beside the downloaded folders with the checksum of each archive, as ``sha256sum`` writes it."""

REACH_S = 5.0  # for the answer to the first question, name resolution included
STALL_S = 20.0  # a transfer that brings nothing for so long has failed
_BLOCK = 1 << 20


def check_reachable(url: str, *, seconds: float | None = None) -> int | None:
    """Ask the server for the size of ``url``; proxies of the environment are honoured.

    Returns:
        The size in bytes, or ``None`` if the server does not tell.

    Raises:
        ConnectionError: with one line of reason, after at most ``seconds`` (5 by default).
    """
    seconds = REACH_S if seconds is None else seconds
    answer: list[int | None] = []
    failure: list[str] = []

    def ask() -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")
            with _open(request, timeout=seconds) as response:
                size = response.headers.get("Content-Length")
                answer.append(int(size) if size else None)
        except Exception as error:
            failure.append(_reason(error))

    # Name resolution obeys no timeout of its own, so it runs beside us and may be left behind.
    asking = threading.Thread(target=ask, daemon=True, name="gnnqlab-reachable")
    asking.start()
    asking.join(seconds)
    host = url.split("/")[2]
    if answer:
        return answer[0]
    raise ConnectionError(f"{host} does not answer ({failure[0] if failure else f'nothing within {seconds:g} s'})")


def fetch_archive(url: str, folder: Path) -> None:
    """Download a ``.zip`` and unpack it as ``folder``, which appears only when it is complete.

    Progress goes to standard error. Of several callers at once the first downloads; the others wait and have it then.
    Where ``SHA256SUMS`` beside the folder names the archive, no other one is unpacked; else what came is named there.

    Raises:
        ConnectionError: if the server cannot be reached, the transfer stalls or breaks, or another archive comes.
        OSError: if the disk cannot hold it.
    """
    before = folder.exists()
    with locked(folder.with_name(f".{folder.name}.lock")):
        if before or not folder.exists():
            _fetch(url, folder)


def _fetch(url: str, folder: Path) -> None:
    size = check_reachable(url)
    free = shutil.disk_usage(folder.parent).free
    if size is not None and 3 * size > free:
        raise OSError(
            f"{url} has {size / 1e9:.1f} GB and needs about {3 * size / 1e9:.0f} GB to unpack, "
            f"{folder.parent} has {free / 1e9:.1f} GB left"
        )
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as room:
        archive, fresh = Path(room, "archive.zip"), Path(room, "unpacked")
        try:
            _check_sum(url, _transfer(url, archive, size), folder.parent / SUMS)
            with zipfile.ZipFile(archive) as unpacked:
                unpacked.extractall(fresh)
            os.replace(fresh, folder)
        except (urllib.error.URLError, TimeoutError, zipfile.BadZipFile) as error:
            raise ConnectionError(f"{url}: {_reason(error)}") from error


def _transfer(url: str, archive: Path, size: int | None) -> str:
    """Write what a server sends to a file; return its SHA-256."""
    from tqdm import tqdm

    digest = hashlib.sha256()
    with (
        _open(url, timeout=STALL_S) as response,
        archive.open("wb") as file,
        tqdm(total=size, unit="B", unit_scale=True, desc=url.rpartition("/")[2], file=sys.stderr) as bar,
    ):
        while block := response.read(_BLOCK):
            file.write(block)
            digest.update(block)
            bar.update(len(block))
    if size is not None and archive.stat().st_size != size:
        raise ConnectionError(f"{url} broke off after {archive.stat().st_size} of {size} bytes")
    return digest.hexdigest()


def _check_sum(url: str, digest: str, sums: Path) -> None:
    """Refuse an archive with another checksum than the one that was noted; note that of one that came first."""
    name = url.rpartition("/")[2]
    lines = [line.split(maxsplit=1) for line in sums.read_text().splitlines()] if sums.is_file() else []
    known = {line[1].lstrip("*"): line[0].lower() for line in lines if len(line) == 2}
    if name not in known:
        with sums.open("a") as file:
            file.write(f"{digest}  {name}\n")
    elif known[name] != digest:
        raise ConnectionError(
            f"{url} must have the SHA-256 {known[name]} that {sums} names, got {digest}; if the publisher has changed "
            "it, remove that line"
        )


class _NoWayDown(urllib.request.HTTPRedirectHandler):
    """Does not go on without encryption where a server that was asked with it points elsewhere."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.URLError(f"points to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def _open(request: str | urllib.request.Request, *, timeout: float) -> HTTPResponse:
    answer: HTTPResponse = urllib.request.build_opener(_NoWayDown).open(request, timeout=timeout)
    return answer


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__
