"""Tenants: added once, changed a field at a time, listed in slices."""

from __future__ import annotations

from typing import Any

import pytest

from batchproc.core.errors import UsageError
from tests.queue.helpers import STORE, Conn, add_tenant


def test_a_new_tenant_has_the_defaults(connection: Conn) -> None:
    tenant = STORE.add_tenant(connection, "acme")
    assert (tenant.slug, tenant.weight, tenant.max_running, tenant.paused, tenant.settings) == (
        "acme", 1.0, None, False, {},
    )  # fmt: skip
    assert STORE.tenant(connection, "acme") == tenant


def test_a_slug_is_taken_once_and_has_a_form(connection: Conn) -> None:
    add_tenant(connection, "acme")
    with pytest.raises(UsageError, match="tenant 'acme' already exists: change it with: batchproc tenants set"):
        add_tenant(connection, "acme")
    for slug in ("", "Acme", "-a", "a b", "a" * 64, "ä", "a\n"):
        with pytest.raises(UsageError, match="cannot be a tenant's slug: use at most 63"):
            add_tenant(connection, slug)


def test_a_tenant_that_does_not_exist_is_named(connection: Conn) -> None:
    for act in (STORE.tenant, STORE.set_tenant):
        with pytest.raises(UsageError, match="there is no tenant 'acme': add it with: batchproc tenants add acme"):
            act(connection, "acme")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"weight": 2.5}, {"weight": 2.5}),
        ({"max_running": 0}, {"max_running": 0}),
        ({"unlimited": True}, {"max_running": None}),
        ({"paused": True}, {"paused": True}),
        ({"settings": {"mode": "redo"}}, {"settings": {"languages": ["eng"], "mode": "redo"}}),
        ({"settings": {"languages": None}}, {"settings": {}}),
        ({}, {}),
    ],
    ids=str,
)
def test_only_what_is_given_changes(connection: Conn, change: dict[str, Any], expected: dict[str, Any]) -> None:
    add_tenant(connection)
    before = STORE.set_tenant(connection, "acme", max_running=3, settings={"languages": ["eng"]})
    after = STORE.set_tenant(connection, "acme", **change)
    assert after == STORE.tenant(connection, "acme")
    names = ("tenant_id", "slug", "weight", "max_running", "paused", "settings")
    assert {name: getattr(after, name) for name in names} == {name: getattr(before, name) for name in names} | expected


def test_the_listing_goes_on_where_it_stopped(connection: Conn) -> None:
    added = [add_tenant(connection, f"t{number}") for number in range(5)]
    slices, after = [], 0
    while found := STORE.tenants(connection, after=after, limit=2):
        slices.append([tenant.tenant_id for tenant in found])
        after = slices[-1][-1]
    assert slices == [added[:2], added[2:4], added[4:]]
