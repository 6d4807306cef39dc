"""Download of an archive with time limits, so that a missing network is detected in seconds."""

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
from gnnqlab.terminal import is_screen
from gnnqlab.units import human_bytes

__all__ = ["SUMS", "check_reachable", "fetch_archive"]

SUMS = "SHA256SUMS"
"""File next to the downloaded folders with the checksum of each archive, in the format of ``sha256sum``."""

REACH_S = 5.0  # time limit of the first response, including name resolution
STALL_S = 20.0  # a transfer without data for this long has failed
_BLOCK = 1 << 20


def check_reachable(url: str, *, seconds: float | None = None) -> int | None:
    """Request the size of ``url`` from the server; proxies of the environment are used.

    Returns:
        The size in bytes, or ``None`` if the server does not send it.

    Raises:
        ConnectionError: with one line of reason, after at most ``seconds`` (5 by default).
    """
    seconds = REACH_S if seconds is None else seconds
    answer: list[int | None] = []
    failure: list[str] = []

    def request_size() -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")
            with _open(request, timeout=seconds) as response:
                size = response.headers.get("Content-Length")
                answer.append(int(size) if size else None)
        except Exception as error:
            failure.append(_reason(error))

    # Name resolution has no timeout, so it runs in a daemon thread, which is abandoned after the limit.
    thread = threading.Thread(target=request_size, daemon=True, name="gnnqlab-reachable")
    thread.start()
    thread.join(seconds)
    host = url.split("/")[2]
    if answer:
        return answer[0]
    raise ConnectionError(f"{host} does not answer ({failure[0] if failure else f'nothing within {seconds:g} s'})")


def fetch_archive(url: str, folder: Path) -> None:
    """Download a ``.zip`` and unpack it as ``folder``, which appears only when it is complete.

    Progress is printed on standard error. Of several concurrent callers the first downloads and the others wait. If
    ``SHA256SUMS`` next to the folder lists the archive, its checksum must match; otherwise it is added to the list.

    Raises:
        ConnectionError: if the server cannot be reached, the transfer stalls or breaks, or the checksum differs.
        OSError: if the disk has too little space.
    """
    had_folder = folder.exists()
    with locked(folder.with_name(f".{folder.name}.lock")):
        # A folder that appeared during the wait was completed by another caller.
        if had_folder or not folder.exists():
            _fetch(url, folder)


def _fetch(url: str, folder: Path) -> None:
    size = check_reachable(url)
    free_bytes = shutil.disk_usage(folder.parent).free
    # For a while archive and unpacked files are both on the disk.
    if size is not None and 3 * size > free_bytes:
        raise OSError(
            f"{url} has {human_bytes(size)} and needs about {human_bytes(3 * size)} to unpack, "
            f"{folder.parent} has {human_bytes(free_bytes)} left"
        )
    # Next to the folder, hence on the same disk, so that the last step is a rename.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as room:
        archive, new_folder = Path(room, "archive.zip"), Path(room, "unpacked")
        try:
            _check_sum(url, _transfer(url, archive, size), folder.parent / SUMS)
            with zipfile.ZipFile(archive) as zip_file:
                zip_file.extractall(new_folder)
            os.replace(new_folder, folder)
        except (urllib.error.URLError, TimeoutError, zipfile.BadZipFile) as error:
            raise ConnectionError(f"{url}: {_reason(error)}") from error


def _transfer(url: str, archive: Path, size: int | None) -> str:
    """Download to a file; return its SHA-256."""
    from tqdm import tqdm

    digest = hashlib.sha256()
    if not is_screen():
        print(f"downloading {url}", file=sys.stderr, flush=True)  # in a file, every update of a bar would remain
    with (
        _open(url, timeout=STALL_S) as response,
        archive.open("wb") as file,
        tqdm(
            total=size, unit="B", unit_scale=True, desc=url.rpartition("/")[2], file=sys.stderr, disable=not is_screen()
        ) as bar,
    ):
        while block := response.read(_BLOCK):
            file.write(block)
            digest.update(block)
            bar.update(len(block))
    # A connection that is closed early ends the stream without an error.
    if size is not None and archive.stat().st_size != size:
        raise ConnectionError(f"{url} broke off after {archive.stat().st_size} of {size} bytes")
    return digest.hexdigest()


def _check_sum(url: str, digest: str, sums: Path) -> None:
    """Compare an archive's checksum with the recorded one, or record it at the first download."""
    name = url.rpartition("/")[2]
    lines = [line.split(maxsplit=1) for line in sums.read_text().splitlines()] if sums.is_file() else []
    hashes = {line[1].lstrip("*"): line[0].lower() for line in lines if len(line) == 2}
    if name not in hashes:
        with sums.open("a") as file:
            file.write(f"{digest}  {name}\n")
    elif hashes[name] != digest:
        raise ConnectionError(
            f"{url} must have the SHA-256 {hashes[name]} that {sums} names, got {digest}; if the publisher has changed "
            "it, remove that line"
        )


class _NoWayDown(urllib.request.HTTPRedirectHandler):
    """Redirect handler that refuses redirects from https to an unencrypted address."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise urllib.error.URLError(f"redirects to {newurl}, which is not encrypted")
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
