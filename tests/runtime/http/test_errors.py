"""`HttpError`."""

from nsqlake.errors import NsqlakeError
from nsqlake.runtime.http import HttpError, error_response


def test_an_error_says_what_is_answered():
    error = HttpError(404, "TOPIC_NOT_FOUND")

    assert isinstance(error, NsqlakeError)
    assert (error.status, error.code, error.headers, str(error)) == (
        404,
        "TOPIC_NOT_FOUND",
        (),
        "404 TOPIC_NOT_FOUND",
    )


def test_a_reason_is_for_people():
    error = HttpError(416, "OFFSET_OUT_OF_RANGE", reason="the log begins at 7")

    assert str(error) == "416 OFFSET_OUT_OF_RANGE: the log begins at 7"
    assert error_response(error).body == b'{"message":"OFFSET_OUT_OF_RANGE","reason":"the log begins at 7"}'
    assert error_response(HttpError(404, "X")).body == b'{"message":"X"}'
