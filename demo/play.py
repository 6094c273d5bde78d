"""Play the main job end to end and print each command before its output.

    python demo/play.py [--simulated] [--name NAME]

Starts a local control plane, applies the Memcached CRD and the sample, runs the operator, and then
does to the pool what its user would. Exit code 1, with the reason, where anything did not work.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
KUBECTL = ROOT / ".venv" / "kubectl-34" / "kubectl"
POOL = "memcached-sample"
LABELS = f"app.kubernetes.io/instance={POOL}"


class DemoError(Exception):
    """A step did not do what it must."""


class Stage:
    """Where the demo plays: a scratch folder, an environment, and the operator's process."""

    def __init__(self, name: str, *, simulated: bool, scratch: Path) -> None:
        self.name = name
        self.simulated = simulated
        self.operator: subprocess.Popen[bytes] | None = None
        self.operator_log = scratch / "operator.log"
        commands = scratch / "bin"
        commands.mkdir()
        (commands / "kubectl").symlink_to(KUBECTL)
        self.environment = {
            **os.environ,
            "PATH": f"{commands}:{BIN}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(scratch / "state"),
            "KUBECACHEDIR": str(scratch / "cache"),
            "KUBECONFIG": str(scratch / "state" / "kubewright" / "local" / name / "kubeconfig"),
        }

    def run(self, command: str, *, expect: str = "", seconds: float = 120) -> str:
        """Print a command, run it, print its output and return it.

        Raises:
            DemoError: it failed, took too long, or its output lacks `expect`.
        """
        print(f"\n$ {command}", flush=True)
        try:
            result = subprocess.run(
                shlex.split(command),
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise DemoError(f"{command!r} took over {seconds:.0f} s") from error
        print(result.stdout, end="", flush=True)
        if result.returncode:
            raise DemoError(f"{command!r} ended with exit code {result.returncode}")
        if expect not in result.stdout:
            raise DemoError(f"{command!r}: its output lacks {expect!r}")
        return result.stdout

    def ask(self, command: str) -> str:
        """Run a command silently and return its output."""
        return subprocess.run(
            shlex.split(command),
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
            check=True,
        ).stdout.strip()

    def start_operator(self) -> None:
        """Start the operator in the background."""
        command = "kubewright run memcached_operator"
        print(f"\n$ {command} &", flush=True)
        with self.operator_log.open("wb") as log:
            self.operator = subprocess.Popen(
                shlex.split(command), cwd=ROOT, env=self.environment, stdout=log, stderr=log
            )

    def close(self) -> None:
        """Stop what was started, whatever happened before."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not stop the clean-up
        if self.operator is not None:
            self.operator.terminate()
            try:
                self.operator.wait(30)
            except subprocess.TimeoutExpired:
                self.operator.kill()
        down = [str(BIN / "kubewright"), "local", "down", "--name", self.name]
        subprocess.run(down, env=self.environment, capture_output=True, check=False)


def play(stage: Stage) -> str:
    """Play all scenes and return what worked."""
    start(stage)
    use_every_pod(stage)
    scale(stage)
    update(stage)
    if not stage.simulated:
        kill_a_process(stage)
    delete(stage)
    stage.run(f"kubewright local down --name {stage.name}")
    done = "apply, scale, rolling update and delete of a memcached pool"
    return f"{done} on simulated pods" if stage.simulated else f"{done}, keys in every pod, a crash"


def start(stage: Stage) -> None:
    """Start the control plane and the operator, apply the sample, wait until it is ready."""
    simulated = " --simulated" if stage.simulated else ""
    output = stage.run(f"kubewright local up --name {stage.name}{simulated}", expect="is ready")
    stage.simulated = "simulated" in output
    stage.run("kubectl apply -f operators/memcached/config/crd.yaml")
    stage.run("kubectl wait --for=condition=Established crd/memcacheds.cache.example.com")
    stage.run("kubectl apply -f operators/memcached/samples/cache_v1alpha1_memcached.yaml")
    stage.start_operator()
    stage.run(f"kubectl wait --for=condition=Ready memcached/{POOL} --timeout=120s")
    stage.run("kubectl get memcached,deployment,replicaset,pod -o wide", expect=POOL)


def pods(stage: Stage) -> dict[str, str]:
    """Return the addresses of the pool's pods by name, without those that are going away."""
    template = (
        "{{range .items}}{{if not .metadata.deletionTimestamp}}"
        '{{.metadata.name}} {{.status.podIP}}{{"\\n"}}{{end}}{{end}}'
    )
    text = stage.ask(f"kubectl get pods -l {LABELS} -o go-template={shlex.quote(template)}")
    return dict(line.split() for line in text.splitlines())


def use_every_pod(stage: Stage) -> None:
    """Write and read a key through each pod's own address."""
    for number, (name, address) in enumerate(sorted(pods(stage).items())):
        if stage.simulated:
            print(f"\npod {name} has the address {address}; it is simulated: no process to ask")
            continue
        stage.run(
            f"kubewright local exec --name {stage.name} -- "
            f"python3 demo/memcached_key.py {address} key-{number} value-{number}",
            expect=f"value-{number}",
        )


def scale(stage: Stage) -> None:
    """Scale the pool with a patch."""
    stage.run(f"""kubectl patch memcached {POOL} --type=merge -p '{{"spec":{{"size":5}}}}'""")
    stage.run(
        f"kubectl wait memcached/{POOL} --for=jsonpath='{{.status.readyReplicas}}'=5 --timeout=120s"
    )
    stage.run(f"kubectl get memcached {POOL}", expect="5")


def update(stage: Stage) -> None:
    """Change the version and watch the rolling update."""
    if not stage.simulated:
        print("\n# Debian's one memcached serves both tags: the pods change, the binary stays")
    stage.run(
        f"""kubectl patch memcached {POOL} --type=merge -p '{{"spec":{{"version":"1.6.18"}}}}'"""
    )
    stage.run(f"kubectl wait memcached/{POOL} --for=jsonpath='{{.status.observedGeneration}}'=3")
    stage.run(f"kubectl rollout status deployment/{POOL} --timeout=180s", expect="success")
    columns = "NAME:.metadata.name,IMAGE:.spec.containers[0].image,PHASE:.status.phase"
    stage.run(f"kubectl get pods -l {LABELS} -o custom-columns={columns}", expect="1.6.18")
    stage.run(f"kubectl wait --for=condition=Ready memcached/{POOL} --timeout=120s")


def kill_a_process(stage: Stage) -> None:
    """Kill one memcached and see it come back in the same pod."""
    name = sorted(pods(stage))[0]
    stage.run(f"kill -KILL {find_process(name)}")
    stage.run(
        f"kubectl wait pod/{name} --timeout=60s "
        "--for=jsonpath='{.status.containerStatuses[0].restartCount}'=1"
    )
    stage.run(f"kubectl wait pod/{name} --for=condition=Ready --timeout=60s")
    stage.run(f"kubectl get pod {name}", expect="Running")


def find_process(pod: str) -> int:
    """Return the process id of the memcached of a pod, as this machine counts it."""
    wanted = f"HOSTNAME={pod}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_memcached = (folder / "comm").read_text() == "memcached\n"
            if is_memcached and wanted in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            continue  # another user's, or gone
    raise DemoError(f"there is no memcached process of pod {pod}")


def delete(stage: Stage) -> None:
    """Delete the pool and see that nothing is left of it."""
    stage.run(f"kubectl delete memcached {POOL}", expect="deleted")
    deadline = time.monotonic() + 60
    what = f"deployments,replicasets,pods,services -l {LABELS}"
    while stage.ask(f"kubectl get {what} -o name"):
        if time.monotonic() > deadline:
            raise DemoError("objects of the pool are left a minute after its deletion")
        time.sleep(0.2)
    stage.run(f"kubectl get {what}", expect="No resources found")


def main() -> int:
    """Play, and say what worked and how long it took."""
    parser = argparse.ArgumentParser(description="Play the main job end to end.")
    parser.add_argument("--simulated", action="store_true", help="simulate the pods")
    parser.add_argument("--name", default="demo", help="name of the local cluster")
    options = parser.parse_args()
    began = time.monotonic()
    scratch = Path(tempfile.mkdtemp(prefix="kubewright-demo-"))
    stage = Stage(options.name, simulated=options.simulated, scratch=scratch)
    try:
        worked = play(stage)
    except (DemoError, subprocess.SubprocessError) as error:
        print(f"\nFAILED: {error}", file=sys.stderr)
        if stage.operator_log.exists():
            print(f"the operator's last words:\n{_tail(stage.operator_log)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: stopping what was started", file=sys.stderr)
        return 130
    finally:
        stage.close()
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"\nIt worked: {worked}; {time.monotonic() - began:.0f} s.")
    return 0


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-20:])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    sys.exit(main())
