from nsqlake.cluster.errors import NobodyAnsweredError, RequestError, StatusError

FIELDS = {"method": "GET", "url": "http://h:1/lookup?topic=t"}


def test_request_error_reads_as_in_nsqs_tools() -> None:
    error = RequestError("h:1", **FIELDS, reason="dial tcp h:1: connect: connection refused")

    assert str(error) == 'Get "http://h:1/lookup?topic=t": dial tcp h:1: connect: connection refused'
    assert (error.address, error.retriable) == ("h:1", True)


def test_status_error_quotes_the_answer() -> None:
    error = StatusError("h:1", **FIELDS, status=404, phrase="Not Found", body=b'{"message":"X"}\n')

    assert str(error) == 'got response 404 Not Found "{\\"message\\":\\"X\\"}\\n"'
    assert (error.status, error.retriable) == (404, False)


def test_status_of_a_broken_server_is_worth_another_try() -> None:
    assert StatusError("h:1", **FIELDS, status=503, phrase="", body=b"").retriable


def test_long_answer_is_cut() -> None:
    error = StatusError("h:1", **FIELDS, status=500, phrase="", body=b"x" * 1_000_000)

    assert len(str(error)) < 400


def test_nobody_answered_names_every_reason() -> None:
    errors = [RequestError("a:1", **FIELDS, reason="one"), RequestError("b:1", **FIELDS, reason="two")]

    error = NobodyAnsweredError("nsqd", errors)

    assert str(error) == f"failed to query any nsqd: {errors[0]}\n{errors[1]}"
    assert str(NobodyAnsweredError("nsqd")) == "failed to query any nsqd: "
