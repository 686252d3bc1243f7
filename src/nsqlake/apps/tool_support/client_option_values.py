"""Reading the values of client options; every text of a ValueError is the one NSQ's Go client gives."""

import math
import os
import re
import ssl

from nsqlake.runtime.addresses import error_text, resolve_host, resolve_port, split_host_port
from nsqlake.runtime.go_text import go_quote, parse_decimal_integer

UINT16_COUNT = 2**16
UINT64_COUNT = 2**64
TLS_VERSIONS = ("ssl3.0", "tls1.0", "tls1.1", "tls1.2", "tls1.3")
BACKOFF_STRATEGIES = ("exponential", "full_jitter")

_UNSIGNED = re.compile(r"[0-9]+")


def read_integer(text: str) -> int:
    try:
        return parse_decimal_integer(text)
    except ValueError as error:
        raise ValueError(f"strconv.ParseInt: parsing {go_quote(text)}: {error}") from None


def read_attempts(text: str) -> int:
    prefix = f"strconv.ParseUint: parsing {go_quote(text)}: "
    if not _UNSIGNED.fullmatch(text):
        raise ValueError(prefix + "invalid syntax")
    if len(text) > 30 or int(text) >= UINT64_COUNT:
        raise ValueError(prefix + "value out of range")
    return int(text) % UINT16_COUNT  # as NSQ does it


def read_fraction(text: str) -> float:
    problem = f"strconv.ParseFloat: parsing {go_quote(text)}: invalid syntax"
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError(problem)
    try:
        value = float(text)
    except ValueError:
        raise ValueError(problem) from None
    if math.isnan(value):
        raise ValueError(problem)
    return value


def read_local_address(text: str) -> str:
    host_port = split_host_port(text)
    if host_port is None:
        raise ValueError(f"address {text}: missing port in address")
    host, port = host_port
    number = resolve_port(port)
    if host:
        resolve_host(host, number)
    return text


def read_backoff_strategy(text: str) -> str:
    if text not in BACKOFF_STRATEGIES:
        raise ValueError(f"use {' or '.join(BACKOFF_STRATEGIES)}")
    return text


def read_tls_version(text: str) -> str:
    if text not in TLS_VERSIONS:
        raise ValueError(f"ERROR: {text} is not a tls version")
    return text


def read_trust_file(path: str) -> str:
    try:
        _open(path)
    except OSError as error:
        reason = f"{path}: {error_text(error)}"
        raise ValueError(f"ERROR: failed to read custom Certificate Authority file open {reason}") from None
    try:
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        text = "ERROR: failed to append certificates from Certificate Authority file"
        raise ValueError(text) from None
    return path


def read_file_path(path: str) -> str:
    try:
        _open(path)
    except OSError as error:
        raise ValueError(f"open {path}: {error_text(error)}") from None
    return path


def _open(path: str) -> None:
    with open(path, "rb") as file:
        os.fstat(file.fileno())
