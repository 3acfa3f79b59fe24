from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from conftest import Answer, Server

from rolloutd import DeadlineError, InvalidError, NotFoundError, Sequence, Span, Staleness, UnavailableError, WeightSync
from rolloutd.staleness import oldest, version_number
from rolloutd.weights import Audit, AuditedTurn, AuditedVersion

STATUS = {"paused": True, "in_flight": 0, "queued": 2}


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clock of pauses, which only a test turns on."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("rolloutd.weights.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def paths(server: Server) -> list[str]:
    return [s.path for s in server.seen]


def gateway(server: Server, *drains: Answer) -> None:
    for what in ("pause", "resume"):
        server.on(f"POST /upstreams/vllm/{what}", Answer(200, STATUS))
    server.on("POST /upstreams/vllm/drain", *(drains or [Answer(200, STATUS)]))
    server.on("GET /upstreams/vllm", Answer(200, STATUS))


def test_update_is_drain_load_resume(server: Server) -> None:
    gateway(server)
    sync = WeightSync("vllm", server.url, token="t")
    assert sync.update(lambda: (paths(server), "loaded"), hold_s=600)[1] == "loaded"
    assert paths(server) == ["/upstreams/vllm/pause", "/upstreams/vllm/drain", "/upstreams/vllm/resume"]
    assert {s.headers["Authorization"] for s in server.seen} == {"Bearer t"}
    assert server.seen[1].body == {"for_s": 900, "wait_s": 300, "abort": False}


def test_the_new_weights_are_named(server: Server) -> None:
    gateway(server)
    WeightSync("vllm", server.url).update(lambda: None, version="step-12", hold_s=600)
    assert server.seen[-1].body == {"version": "step-12"}
    with pytest.raises(RuntimeError), WeightSync("vllm", server.url).drained(version="step-13", hold_s=600):
        raise RuntimeError("no memory")
    assert not server.seen[-1].body


def test_an_audit_has_its_differences_by_version(server: Server) -> None:
    version = {"version": "step-3", "turns": 2, "tokens": 40, "mean_abs": 0.01, "k1": -0.001, "k3": 0.002}
    marked = {"route": "r.1", "turn": 4, "version": "step-3", "mean_abs": 0.7}
    found = {"turns": 2, "versions": [version], "skipped": {"no_logprobs": 1}, "marked": [marked]}
    server.on("POST /upstreams/vllm/audit", Answer(200, found))
    server.on("GET /upstreams/vllm/audit", Answer(200, {"turns": 0, "versions": []}), Answer(404, {"kind": "NotFound", "message": "no audit"}))
    sync = WeightSync("vllm", server.url)
    (audit,) = sync.audit(turns=2, drop=True)
    assert (audit.gateway, audit.turns, audit.skipped) == (server.url, 2, {"no_logprobs": 1})
    assert audit.versions == (AuditedVersion("step-3", 2, 40, 0.01, -0.001, 0.002),)
    assert audit.marked == (AuditedTurn("r.1", 4, "step-3", 0.7),)
    assert server.seen[0].body == {"turns": 2, "limit": 0.1, "tokens": 4096, "drop": True}
    assert sync.latest_audit() == [Audit(server.url, 0, (), {}, ())]
    with pytest.raises(NotFoundError, match="no audit"):
        sync.latest_audit()


def test_a_failure_resumes(server: Server) -> None:
    gateway(server, Answer(504, {"kind": "Timeout", "message": "calls are under way"}))
    with pytest.raises(DeadlineError, match="under way"):
        WeightSync("vllm", server.url).update(lambda: pytest.fail("loaded into an endpoint that works"), hold_s=600)
    assert paths(server)[-1] == "/upstreams/vllm/resume"

    gateway(server)
    with pytest.raises(RuntimeError, match="no memory"), WeightSync("vllm", server.url).drained(hold_s=600):
        raise RuntimeError("no memory")
    assert paths(server)[-1] == "/upstreams/vllm/resume"


def test_the_pause_is_renewed_while_weights_load(server: Server) -> None:
    gateway(server)
    with WeightSync("vllm", server.url).drained(hold_s=0.03):
        while len(server.requests("POST /upstreams/vllm/pause")) < 3:
            threading.Event().wait(0.01)
    assert paths(server)[-1] == "/upstreams/vllm/resume"


def test_a_pause_that_may_have_ended_is_an_error(server: Server, clock: SimpleNamespace) -> None:
    gateway(server)
    server.on("POST /upstreams/vllm/pause", Answer(200, STATUS), Answer(503, {"detail": "away"}))
    with pytest.raises(UnavailableError, match="not renewed for 0.03 s"), WeightSync("vllm", server.url).drained(version="step-12", hold_s=0.03):
        while len(server.requests("POST /upstreams/vllm/pause")) < 3:
            threading.Event().wait(0.01)
        clock.now += 1
    assert server.seen[-1].body == {"version": "step-12"}, "the new weights are loaded"


def test_all_gateways_are_drained(server: Server) -> None:
    gateway(server)
    sync = WeightSync("vllm", [server.url, server.url])
    assert [s.queued for s in sync.status()] == [2, 2]
    sync.update(lambda: None, hold_s=600)
    assert len(server.requests("POST /upstreams/vllm/drain")) == 2


def sequence(*versions: str) -> Sequence:
    spans = tuple(Span(i, i, i + 1, True, "stop", False, False, v, None) for i, v in enumerate(versions))
    n = len(spans)
    return Sequence("r", "g", "t", "completed", 1.0, 0, n, "", "root", [1] * n, [1] * n, [-1.0] * n, spans, "end")


def test_versions() -> None:
    assert [version_number(v) for v in ("step-12", "v1.7", "main", "")] == [12, 7, None, None]
    assert oldest(sequence("4..5", "3..4", "6")) == 3
    assert oldest(sequence("", "main")) is None


def test_staleness_drops_or_marks_and_counts() -> None:
    all = [sequence("10"), sequence("8..9"), sequence("7"), sequence("")]
    drop = Staleness(2)
    assert [s for s, _ in drop.apply(all, 10)] == [all[0], all[1], all[3]]
    assert (drop.fresh, drop.stale, drop.unknown, drop.lags) == (2, 1, 1, {0: 1, 2: 1, 3: 1})
    mark = Staleness(2, "mark")
    assert [stale for _, stale in mark.apply(all, 10)] == [False, False, True, False]
    with pytest.raises(InvalidError, match="max_version_lag"):
        Staleness(-1)
