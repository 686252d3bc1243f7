"""Made-up lines of a DNS resolver's query log: CSV, 14 fields, the answers as a quoted list."""

import random
import time

_TENANTS = tuple(f"{number:032x}" for number in (0xA1, 0xB2, 0xC3))
_NAMES = ("www", "mail", "cdn", "api", "login", "img")
_DOMAINS = ("example.com", "example.net", "example.org", "shop.example", "news.example")
_QUERY_TYPES = (1, 1, 1, 28, 5)  # A most often, AAAA, CNAME
_NO_ERROR, _NO_SUCH_NAME = 0, 3


def make_line(chance: random.Random, qtime_s: int) -> bytes:
    """One query that was answered at `qtime_s`; all addresses are from the ranges for documentation."""
    domain = f"{chance.choice(_NAMES)}.{chance.choice(_DOMAINS)}"
    client_ip = f"192.0.2.{chance.randrange(1, 255)}"
    answers = [f"198.51.100.{chance.randrange(1, 255)}" for _ in range(chance.choice((0, 1, 1, 2)))]
    rcode = _NO_ERROR if answers else _NO_SUCH_NAME
    delay_us, score = chance.randrange(200, 400_000), chance.randrange(100)
    policy, category = chance.randrange(4), chance.randrange(8)
    clock = time.strftime("%d-%b-%Y %H:%M:%S", time.gmtime(qtime_s))
    snapshot = f"{clock} client {client_ip}: view default: {domain} {score} {policy} {category} {delay_us}"
    fields = (
        chance.choice(_TENANTS),
        f"{chance.randrange(20):032x}",
        qtime_s,
        client_ip,
        "default",
        domain,
        chance.choice(_QUERY_TYPES),
        f'"{answers}"'.replace(" ", ""),
        rcode,
        delay_us,
        score,
        policy,
        category,
        snapshot,
    )
    return ",".join(map(str, fields)).encode()
