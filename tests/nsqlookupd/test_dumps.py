"""`/debug` of any size."""

import asyncio
import json
import os

import pytest

from nsqlake.nsqlookupd import dumps
from nsqlake.nsqlookupd.dumps import Dumps
from nsqlake.nsqlookupd.registration_db import RegistrationDb
from nsqlake.runtime.http import FileResponse, HttpError, Response
from tests.nsqlookupd.support import NOW_NS, add_peer, new_db


def filled(topics: int, peers: int = 3) -> RegistrationDb:
    db = new_db()
    for number in range(peers):
        peer = add_peer(db, f"h{number}")
        for topic in range(topics):
            db.register(peer, f"t{topic}", "c")
    return db


def read(response: Response) -> dict[str, list[dict[str, object]]]:
    body = response.body
    if isinstance(response, FileResponse):
        body = b"".join(os.pread(number, count, position) for number, position, count in response.parts)
        response.discard()
    found: dict[str, list[dict[str, object]]] = json.loads(body)
    return found


def test_what_is_small_is_an_answer_like_any_other() -> None:
    response = asyncio.run(Dumps(filled(5)).take())

    assert not isinstance(response, FileResponse)
    assert len(read(response)) == 11


def test_what_is_large_comes_from_a_file_and_is_the_same() -> None:
    db = filled(2_000)
    shown = read(asyncio.run(Dumps(db).take()))

    assert len(shown) == 4_001
    assert all(len(entries) == 3 for entries in shown.values())
    assert shown["channel:t7:c"] == shown["topic:t1999:"] == shown["client::"]


def test_a_tombstone_is_shown_at_its_topic_only() -> None:
    db = filled(2)
    db.tombstone("t1", "h1:4151", NOW_NS)

    shown = read(asyncio.run(Dumps(db).take()))

    dead = {key: [entry["tombstoned"] for entry in entries] for key, entries in shown.items()}
    assert dead["topic:t1:"] == [False, True, False]
    assert [key for key, flags in dead.items() if any(flags)] == ["topic:t1:"]
    assert shown["topic:t1:"][1]["tombstoned_at"] == NOW_NS


def test_too_many_files_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "MAX_BYTES_IN_MEMORY", 100)
    taken = Dumps(filled(10))
    files = [asyncio.run(taken.take()) for _ in range(dumps.MAX_FILES)]

    with pytest.raises(HttpError, match="503 BUSY"):
        asyncio.run(taken.take())
    files[0].discard()

    assert len(read(asyncio.run(taken.take()))) == 21
    for file in files[1:]:
        file.discard()


def test_what_would_be_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "MAX_BYTES_IN_MEMORY", 100)
    monkeypatch.setattr(dumps, "PIECE_BYTES", 100)
    monkeypatch.setattr(dumps, "MAX_BYTES", 4_000)
    taken = Dumps(filled(10))

    with pytest.raises(HttpError, match="503 TOO_LARGE"):
        asyncio.run(taken.take())

    assert list(read(asyncio.run(taken.take("t1")))) == ["channel:t1:c", "client::", "topic:t1:"]


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dumps, "MAX_BYTES_IN_MEMORY", 100)
    monkeypatch.setattr(dumps.os, "write", fail)

    with pytest.raises(HttpError, match="503 STORAGE_FAILED: No space left"):
        asyncio.run(Dumps(filled(10)).take())
