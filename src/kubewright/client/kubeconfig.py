"""The configuration of a connection, from kubeconfig files or from inside a pod."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from kubewright.api.errors import ConfigurationError
from kubewright.api.resource import Object
from kubewright.client.credentials import Impersonation
from kubewright.client.exec_plugin import API_VERSIONS, ExecConfig
from kubewright.client.kubeconfig_file import MergedFiles, Section, find_files, merge_files
from kubewright.client.tls import CertificateFiles, ClientCertificate, TLSConfig

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_INTERACTIVE_MODES = ("", "IfAvailable", "Always", "Never")


class User(msgspec.Struct, frozen=True):
    """Who asks: the ways to prove it that a kubeconfig can name; a token goes before a password."""

    token: str = ""
    token_file: Path | None = None
    username: str = ""
    password: str = ""
    certificate: ClientCertificate | None = None
    certificate_files: CertificateFiles | None = None
    exec: ExecConfig | None = None
    impersonation: Impersonation | None = None

    def __repr__(self) -> str:
        return "User(…)"


class KubeConfig(msgspec.Struct, frozen=True):
    """Which API server, how to verify it, who asks, and in which namespace by default.

    `load` finds it as kubectl does. `server` is a URL; `tls` holds the authorities to trust and
    the client's certificate, `user` the credentials and whom to impersonate. `proxy` is the URL of
    an HTTP proxy. `context` is the name of the kubeconfig's context; empty in a cluster.
    """

    server: str
    namespace: str = "default"
    tls: TLSConfig = msgspec.field(default_factory=TLSConfig)
    user: User = msgspec.field(default_factory=User)
    proxy: str | None = None
    context: str = ""

    @staticmethod
    def load(path: str | Path | None = None, context: str | None = None) -> KubeConfig:
        """Load a configuration as kubectl would.

        A `path` is used alone. Otherwise the files of $KUBECONFIG are merged, where the first one
        that names a thing counts; otherwise ~/.kube/config; otherwise, in a pod, its service
        account. `context` takes the place of the files' current-context.

        Raises:
            ConfigurationError: nothing was found, or what was found cannot be used.
        """
        files = [Path(path).expanduser()] if path is not None else find_files(os.environ)
        if files:
            return build_config(merge_files(files), context)
        if is_in_cluster(os.environ):
            return load_in_cluster(os.environ)
        named = os.environ.get("KUBECONFIG")
        missing = f"names {named}, which does not exist" if named else "is not set"
        raise ConfigurationError(
            f"no kubeconfig found: KUBECONFIG {missing}, and there is no ~/.kube/config and no "
            "service account of a pod; `kubewright local up` starts a cluster and writes one"
        )


def build_config(files: MergedFiles, context: str | None = None) -> KubeConfig:
    """Build the configuration of a context, the current one by default.

    Raises:
        ConfigurationError: a reference leads nowhere, or a field cannot be used.
    """
    name = context or files.current_context
    if not name:
        listed = ", ".join(map(str, files.files))
        raise ConfigurationError(
            f"{listed}: current-context is not set: choose one with `kubectl config use-context` "
            f"(there: {', '.join(sorted(files.sections['contexts'])) or 'none'})"
        )
    chosen = files.find("contexts", name, "the context is")
    cluster_name, user_name = chosen.text("cluster"), chosen.text("user")
    if not cluster_name:
        raise chosen.error("cluster", "is missing: name one of the clusters")
    cluster = files.find("clusters", cluster_name, f"context {name!r} names the cluster")
    user = files.find("users", user_name, f"context {name!r} names the user") if user_name else None
    tls = build_tls(cluster)
    return KubeConfig(
        server=_server_of(cluster),
        namespace=chosen.text("namespace") or "default",
        tls=tls,
        user=build_user(user, cluster) if user is not None else User(),
        proxy=_proxy_of(cluster),
        context=name,
    )


def build_tls(cluster: Section) -> TLSConfig:
    """Read how a cluster's server is verified."""
    insecure = cluster.flag("insecure-skip-tls-verify")
    authority = cluster.data("certificate-authority")
    if insecure and authority is not None:
        raise cluster.error(
            "insecure-skip-tls-verify", "contradicts certificate-authority: keep one of them"
        )
    name = cluster.text("tls-server-name") or None
    return TLSConfig(authority, not insecure, name, cluster.file_of("certificate-authority"))


def build_user(user: Section, cluster: Section) -> User:
    """Read how a user proves who they are.

    Raises:
        ConfigurationError: the user needs a way that is not supported, or half of one.
    """
    if user.fields.get("auth-provider") is not None:
        raise user.error(
            "auth-provider", "is no longer supported by Kubernetes: use an exec plugin"
        )
    certificate, key = user.data("client-certificate"), user.data("client-key")
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise user.error(missing, "is missing: a certificate and its key belong together")
    plugin = user.section("exec")
    pair = ClientCertificate(certificate, key) if certificate is not None and key else None
    return User(
        token=user.text("token"),
        token_file=user.path("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
        certificate=pair,
        certificate_files=_certificate_files(user),
        exec=build_exec(plugin, cluster) if plugin is not None else None,
        impersonation=_impersonation_of(user),
    )


def _certificate_files(user: Section) -> CertificateFiles | None:
    certificate, key = user.file_of("client-certificate"), user.file_of("client-key")
    return CertificateFiles(certificate, key) if certificate and key else None


def build_exec(plugin: Section, cluster: Section) -> ExecConfig:
    """Read how a credential plugin is run."""
    version = plugin.text("apiVersion")
    if version not in API_VERSIONS:
        raise plugin.error("apiVersion", f"must be one of {', '.join(API_VERSIONS)}")
    command = plugin.text("command")
    if not command:
        raise plugin.error("command", "is missing")
    mode = plugin.text("interactiveMode")
    if mode not in _INTERACTIVE_MODES:
        raise plugin.error("interactiveMode", "must be IfAvailable, Always or Never")
    # A command with a slash is relative to the file, any other one is found in $PATH.
    is_path = "/" in command or os.sep in command
    return ExecConfig(
        command=str(plugin.file.parent / command) if is_path else command,
        args=plugin.texts("args"),
        env=_environment_of(plugin),
        api_version=version,
        install_hint=plugin.text("installHint"),
        interactive=mode != "Never",
        cluster=_exec_cluster(cluster) if plugin.flag("provideClusterInfo") else None,
    )


def is_in_cluster(environment: Mapping[str, str]) -> bool:
    """Tell whether the process runs in a pod that has a service account."""
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


def load_in_cluster(
    environment: Mapping[str, str], directory: Path = SERVICE_ACCOUNT
) -> KubeConfig:
    """Load the configuration of a pod; its token is read again while the process lives.

    Raises:
        ConfigurationError: the service account is not mounted whole.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        authority = (directory / "ca.crt").read_bytes()
    except OSError as error:
        raise ConfigurationError(
            f"{directory / 'ca.crt'}: cannot be read: {error.strerror}; "
            "mount the service account (automountServiceAccountToken)"
        ) from error
    namespace = directory / "namespace"
    return KubeConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text("utf-8").strip() if namespace.exists() else "default",
        tls=TLSConfig(authority, ca_file=directory / "ca.crt"),
        user=User(token_file=directory / "token"),
        context="in-cluster",
    )


def _server_of(cluster: Section) -> str:
    server = cluster.text("server")
    if not server:
        raise cluster.error("server", "is missing: write it as https://HOST:PORT")
    # kubectl takes a server without a scheme for a plain HTTP one.
    server = server if "://" in server else f"http://{server}"
    if urlsplit(server).scheme not in ("http", "https"):
        raise cluster.error("server", f"must be an https or http URL, not {server!r}")
    return server


def _proxy_of(cluster: Section) -> str | None:
    proxy = cluster.text("proxy-url")
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise cluster.error("proxy-url", "must be an http or https URL: SOCKS is not supported")
    return proxy or None


def _impersonation_of(user: Section) -> Impersonation | None:
    name, groups = user.text("as"), user.texts("as-groups")
    extra = user.section("as-user-extra")
    if not name:
        if groups or extra is not None or user.text("as-uid"):
            raise user.error("as", "is missing: as-groups, as-uid and as-user-extra need it")
        return None
    values = {key: extra.texts(key) for key in extra.fields} if extra is not None else {}
    return Impersonation(name, user.text("as-uid"), groups, values)


def _environment_of(plugin: Section) -> dict[str, str]:
    entries = plugin.fields.get("env") or []
    try:
        return {str(entry["name"]): str(entry["value"]) for entry in entries}
    except (TypeError, KeyError) as error:
        raise plugin.error("env", "must be a list of name and value") from error


def _exec_cluster(cluster: Section) -> Object:
    """Return what a plugin is told of its cluster: inline, whatever the file's form is."""
    told: Object = {
        "server": cluster.text("server"),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.flag("insecure-skip-tls-verify"),
        "certificate-authority-data": cluster.data("certificate-authority"),
        "proxy-url": cluster.text("proxy-url"),
    }
    extensions = cluster.fields.get("extensions") or []
    for extension in extensions:
        if extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return {key: value for key, value in told.items() if value}
