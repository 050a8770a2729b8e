"""The service against its own description, by schemathesis: no 5xx, nothing that the description does not allow.

``make fuzz-api`` runs the same with many more cases.
"""

from __future__ import annotations

import os
from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from helpers.served import Served, jpeg

CASES = int(os.environ.get("X2L_FUZZ_CASES", "6"))
"""Of each operation: with valid data, with data that is not valid, and of sessions that there are."""
FUZZING = "X2L_FUZZ_CASES" in os.environ
CHECKS = [
    not_a_server_error, status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance,
]  # fmt: skip
schemathesis.openapi.media_type("image/jpeg", st.sampled_from([jpeg(1), b"", b"no picture", jpeg(2)[:99]]))


def operations(service: Served) -> list[APIOperation[Any, Any, Any, Any]]:
    """All of them but the events, which have no end."""
    schema = schemathesis.openapi.from_url(f"{service.address}/v1/openapi.json")
    found = [result.ok() for result in schema.get_all_operations() if hasattr(result, "ok")]
    return [operation for operation in found if not operation.path.endswith("/events")]


def strategies(operation: APIOperation[Any, Any, Any, Any], sessions: list[str]) -> list[st.SearchStrategy[Case[Any]]]:
    """Valid data, data that is not valid, and valid data for sessions that there are."""
    found = [operation.as_strategy(GenerationMode.POSITIVE)]
    if any(operation.iter_parameters()) or operation.body:
        found.append(operation.as_strategy(GenerationMode.NEGATIVE))
    if "{session_id}" in operation.path and operation.method.upper() != "DELETE" and "/end" not in operation.path:
        format_too = {"format": "gpx"} if "{format}" in operation.path else {}
        found += [operation.as_strategy(path_parameters={"session_id": name, **format_too}) for name in sessions]
    return found


def test_every_answer_is_as_described(service: Served) -> None:
    with service.client() as client:
        sessions = [client.create(odometry=kind).id for kind in ("samples", "frames", "samples-only")]
        count = 0
        for operation in operations(service):
            for strategy in strategies(operation, sessions):

                @settings(
                    max_examples=CASES, deadline=None, database=None, derandomize=not FUZZING,
                    suppress_health_check=list(HealthCheck),
                )  # fmt: skip
                @given(case=strategy)
                def check(case: Case[Any]) -> None:
                    nonlocal count
                    count += 1
                    case.call_and_validate(checks=CHECKS, timeout=60)

                check()
        assert client.request("GET", "/readyz").json() == {"status": "ok"}
    print(f"{count:,} cases")
    assert count >= (5000 if FUZZING else 200)


def test_the_description_names_every_request(service: Served) -> None:
    paths = {operation.path for operation in operations(service)}
    for path in ("/v1/sessions", "/v1/sessions/{session_id}/frames", "/v1/jobs", "/metrics", "/healthz", "/v1/login"):
        assert path in paths
