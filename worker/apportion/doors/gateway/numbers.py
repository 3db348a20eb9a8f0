"""Metrics of a gateway. No label holds text of a client."""

from prometheus_client import CollectorRegistry, Counter, Gauge, GCCollector, Histogram, ProcessCollector

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class GatewayNumbers:
    """The metrics of one gateway, and their registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.calls = Counter(
            "apportion_gateway_calls",
            "Calls that were answered, by path and status code.",
            ("path", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "apportion_gateway_call_seconds",
            "Time from the head of a call to its response, by path.",
            ("path",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.in_flight = Gauge(
            "apportion_gateway_in_flight", "Calls that are handled now.", registry=self.registry
        )
        self.body_bytes = Gauge(
            "apportion_gateway_body_bytes", "Bytes of the bodies of calls in flight.", registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
