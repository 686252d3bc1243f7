"""The Grafana dashboard charts what nsqd exports, all of it and nothing else."""

import asyncio
import json
import re
from typing import Any

from nsqlake.nsqd.stats.metrics import build_registry
from nsqlake.nsqd.stats.values import Latency, Percentile
from tests.architecture.source import ROOT
from tests.nsqd.stats.support import channel_stats, topic_stats
from tests.nsqd.stats.test_metrics import observed

DASHBOARD: dict[str, Any] = json.loads(
    (ROOT / "docs" / "grafana" / "nsqd-dashboard.json").read_text(encoding="utf-8")
)
METRIC = re.compile(r"\b(?:nsqd|process|python)_\w+")


def exported() -> dict[str, str]:
    """Every name of a sample, and its family."""
    latency = Latency(1, [Percentile(0.99, 1)])
    channel = channel_stats(e2e_processing_latency=latency)
    observation = observed(topic_stats("t", channel, e2e_processing_latency=latency))
    registry = asyncio.run(build_registry(observation))
    return {sample.name: family.name for family in registry.collect() for sample in family.samples}


def charts() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    return [target["expr"] for panel in charts() for target in panel["targets"]]


def test_every_metric_on_the_dashboard_is_exported() -> None:
    variables = [variable.get("definition", "") for variable in DASHBOARD["templating"]["list"]]

    named = {name for text in expressions() + variables for name in METRIC.findall(text)}

    assert named - set(exported()) == set()
    assert len(named) > 30


def test_every_metric_of_nsqd_is_on_the_dashboard() -> None:
    families = exported()

    charted = {families[name] for expression in expressions() for name in METRIC.findall(expression)}

    assert {family for family in families.values() if family.startswith("nsqd_")} - charted == set()


def test_counters_are_charted_as_rates_unless_a_sum_is_what_matters() -> None:
    plain = [
        name
        for expression in expressions()
        for name in METRIC.findall(expression)
        if name.endswith("_total") and "rate(" not in expression
    ]

    assert sorted(plain) == ["nsqd_task_failures_total", "nsqd_topic_log_damaged_blocks_total"]


def test_rows_are_in_order_and_panels_do_not_overlap() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert rows == ["Overview", "Topics", "Channels", "Storage", "Process"]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_everything_is_asked_of_the_chosen_data_source() -> None:
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    sources = [panel["datasource"] for panel in charts()]
    sources += [target["datasource"] for panel in charts() for target in panel["targets"]]

    assert set(variables) == {"datasource", "instance", "topic", "channel"}
    assert variables["datasource"]["type"] == "datasource"
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert DASHBOARD["schemaVersion"] >= 38
