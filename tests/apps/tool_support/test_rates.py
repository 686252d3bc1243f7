from nsqlake.apps.tool_support.rates import RateMeter, rates_text, size_text


def test_the_rate_is_that_since_the_last_sample() -> None:
    meter = RateMeter(now_s=10.0)
    meter.add(100, 5_000)
    meter.sample(12.0)
    meter.add(300)

    rates = meter.sample(13.0)

    assert (rates.message_count, rates.size_bytes) == (400, 5_000)
    assert (rates.messages_per_s, rates.average_per_s) == (300.0, 400 / 3)


def test_no_time_is_no_rate() -> None:
    assert RateMeter(now_s=1.0).sample(1.0).messages_per_s == 0.0


def test_nothing_new_is_no_news() -> None:
    meter = RateMeter(now_s=0.0)
    meter.add()
    before = meter.has_news
    meter.sample(1.0)

    assert (before, meter.has_news) == (True, False)


def test_the_text_of_a_rate() -> None:
    meter = RateMeter(now_s=0.0)
    meter.add(12_000, 2_400_000)

    assert rates_text("published", meter.sample(3.0)) == "published 12,000 messages (2.4 MB), 4,000/s"
    assert rates_text("read", meter.sample(6.0), is_final=True) == "read 12,000 messages (2.4 MB), 2,000/s"


def test_a_single_message_is_no_plural() -> None:
    meter = RateMeter(now_s=0.0)
    meter.add()

    assert rates_text("read", meter.sample(1.0)) == "read 1 message, 1/s"


def test_sizes_have_the_unit_that_reads_best() -> None:
    assert [size_text(size) for size in (0, 999, 1000, 1_550_000, 10**16)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.6 MB",
        "10000.0 TB",
    ]
