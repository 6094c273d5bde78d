from __future__ import annotations

import pytest
from tests.local.node.objects import build_pod

from kubewright.local.node.pod_admission import find_refusal


def sysctls(*names: str) -> dict[str, object]:
    return {"sysctls": [{"name": name, "value": "1"} for name in names]}


def test_takes_a_pod_with_safe_settings() -> None:
    assert find_refusal(build_pod()) is None
    assert find_refusal(build_pod(securityContext=sysctls("net.ipv4.tcp_syncookies"))) is None


@pytest.mark.parametrize(
    ("name", "network", "message"),
    [
        ("kernel.msgmax", False, 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
        (
            "net.ipv4.tcp_syncookies",
            True,
            'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
        ),
    ],
)
def test_refuses_settings_that_reach_others(name: str, network: bool, message: str) -> None:
    pod = build_pod(securityContext=sysctls(name), hostNetwork=network)
    assert find_refusal(pod) == ("SysctlForbidden", message)
