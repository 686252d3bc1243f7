"""What a handler answers with: bytes, parts of files, or later."""

from collections.abc import Callable, Sequence

from nsqlake.runtime.http.errors import Headers, HttpError
from nsqlake.runtime.http.go_json import encode_json

__all__ = [
    "FilePart",
    "FileResponse",
    "Later",
    "Response",
    "error_response",
    "json_response",
    "text_response",
]

JSON_TYPE = "application/json; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"

FilePart = tuple[int, int, int]  # descriptor, position, byte count


class Response:
    """A whole answer. Headers are sorted by name, as Go does.

    An instance may be used again and again: `OK` is encoded once per second, not once per request.
    """

    __slots__ = ("body", "content_type", "encoded", "encoded_on", "headers", "status")

    def __init__(
        self, status: int = 200, body: bytes = b"", content_type: str = "", headers: Headers = ()
    ) -> None:
        self.status, self.body, self.content_type, self.headers = status, body, content_type, headers
        self.encoded = self.encoded_on = b""  # the whole answer, and the date line it holds

    def discard(self) -> None:
        """It will not be sent."""


class FileResponse(Response):
    """Parts of open files, one after the other; `on_done` is called once, sent or not."""

    __slots__ = ("_on_done", "parts")

    def __init__(
        self,
        parts: Sequence[FilePart],
        content_type: str,
        headers: Headers = (),
        *,
        on_done: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(200, b"", content_type, headers)
        self.parts = parts
        self._on_done = on_done

    @property
    def count(self) -> int:
        """Bytes in all."""
        return sum(count for _, _, count in self.parts)

    def discard(self) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done()


class Later:
    """An answer that will come: a handler returns it, and somebody calls `resolve` once, from the loop."""

    __slots__ = ("_receiver", "_response")

    def __init__(self) -> None:
        self._receiver: Callable[[Response], None] | None = None
        self._response: Response | None = None

    def resolve(self, response: Response) -> None:
        if self._receiver is None:
            self._response = response
        else:
            self._receiver(response)

    def hand_to(self, receiver: Callable[[Response], None]) -> None:
        """`receiver` gets the answer, now if it is there already; the server's side of the bargain."""
        response, self._response, self._receiver = self._response, None, receiver
        if response is not None:
            receiver(response)


def text_response(text: str | bytes, status: int = 200) -> Response:
    return Response(status, text.encode() if isinstance(text, str) else text, TEXT_TYPE)


def json_response(value: object, status: int = 200) -> Response:
    return Response(status, encode_json(value), JSON_TYPE)


def error_response(error: HttpError) -> Response:
    said = {"message": error.code, "reason": error.reason} if error.reason else {"message": error.code}
    return Response(error.status, encode_json(said), JSON_TYPE, error.headers)
