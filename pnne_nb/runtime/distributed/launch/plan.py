"""Plans a launch and checks it before anything starts: how many processes, where, and by which command."""

from __future__ import annotations

import errno
import json
import os
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.distributed as dist

from pnne_nb.errors import TrainingError, near
from pnne_nb.runtime.data.open_data import require_count
from pnne_nb.runtime.distributed.launch.strategies import STRATEGIES

WORKER = "pnne_nb.worker"
_REPLICATION = ("find_unused_parameters", "static_graph", "gradient_as_bucket_view", "bucket_cap_mb")
_BACKENDS = {"cpu": "gloo", "cuda": "nccl"}


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of ``engine.launch``.

    Attributes:
        nproc: Processes on each machine: on GPUs, one for each.
        nnodes: Machines; ``"1:4"`` for as many of them as there are.
        rdzv: Where the machines meet, as ``"host:port"`` of one of them; not needed for one machine.
        strategy: ``"ddp"``: each process has the whole model; ``"fsdp"``: each has a part of every tensor.
        backend: ``"gloo"``, ``"nccl"`` …; None takes what suits the device.
        max_restarts: How often the group is started again after a process has died.
        timeout: Seconds without news after which the group is taken to hang, and is ended.
        directory: Where checkpoints, data and logs of the run are kept; all machines must see it. None
            takes a temporary one, which `launch` removes at the end. That of a kernel that was killed, and that of a
            printed command whose kernel has ended, is swept once no process works on it any more: a later launch
            tells where its checkpoints are, and the one after that removes them.
        imports: Modules that each process imports first: they register node types and datasets.
        sync_batch_norm: Whether batch normalisation sees all parts of a batch, as in one process, instead of each process's
            own: exact, for the price of some messages at each such layer.
        find_unused_parameters: As of DistributedDataParallel; by default on, because a drawn layer need not lead to the
            loss. Without it a step is a little faster, and fails where a parameter gets no gradient.
        static_graph: As of DistributedDataParallel: every step uses the same parameters in the same order.
        gradient_as_bucket_view: As of DistributedDataParallel: saves as much memory as the gradients take.
        bucket_cap_mb: As of DistributedDataParallel: the size of a message with gradients, in MiB; None leaves torch's.
    """

    nproc: int = 2
    nnodes: int | str = 1
    rdzv: str | None = None
    strategy: str = "ddp"
    backend: str | None = None
    max_restarts: int = 3
    timeout: float = 300.0
    directory: str | None = None
    imports: tuple[str, ...] = ()
    sync_batch_norm: bool = False
    find_unused_parameters: bool = True
    static_graph: bool = False
    gradient_as_bucket_view: bool = False
    bucket_cap_mb: float | None = None

    @classmethod
    def of(cls, **options: Any) -> LaunchPlan:
        """Return the plan with these arguments.

        Raises:
            TrainingError: There is no such argument, or its value is of another kind.
        """
        for name in options:
            if name not in cls.__struct_fields__:
                known = cls.__struct_fields__
                raise TrainingError(
                    f"launch takes no argument {name!r}.{near(name, known)} It takes {', '.join(known)}."
                )
        given = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
        if isinstance(given.get("imports"), str):
            given["imports"] = (given["imports"],)
        try:
            return msgspec.convert(given, cls)
        except msgspec.ValidationError as error:
            raise TrainingError(f"An argument of launch is of the wrong kind: {error}") from error

    @property
    def processes(self) -> int:
        """Largest number of processes on all machines."""
        most = self.nnodes if isinstance(self.nnodes, int) else int(self.nnodes.rpartition(":")[2])
        return self.nproc * most

    def check(self, device: torch.device, *, listens: bool) -> None:
        """Raise an error for arguments that are impossible on `device`, or on this machine if it is to take part (`listens`).

        Raises:
            TrainingError: The message says which argument, why, and what would do.
        """
        if not dist.is_available():
            raise TrainingError("This build of torch has no torch.distributed, and so no torchrun: install another.")
        require_count("nproc", self.nproc)
        self._check_devices(device, listens=listens)
        self._check_machines()
        if self.strategy not in STRATEGIES:
            raise TrainingError(
                f"strategy must be {' or '.join(map(repr, STRATEGIES))}, not {self.strategy!r}."
                f"{near(self.strategy, STRATEGIES)}"
            )
        self._check_backend(device)
        self._check_replication()
        if self.max_restarts < 0:
            raise TrainingError(f"max_restarts must be a whole number, at least 0, not {self.max_restarts!r}.")
        if not self.timeout > 0:
            raise TrainingError(f"timeout must be a positive number of seconds, not {self.timeout!r}.")
        if listens and self.rdzv is not None:
            self._check_port(self.rdzv)

    def _check_devices(self, device: torch.device, *, listens: bool) -> None:
        match device.type:
            case "cpu":
                there, of = os.cpu_count() or 1, "CPU core"
            case "cuda":
                there, of = torch.cuda.device_count(), "GPU"
            case other:
                raise TrainingError(
                    f"Several processes train on CPUs or CUDA GPUs, not on {other}: make the engine with device='cpu'."
                )
        if listens and self.nproc > there:
            raise TrainingError(
                f"nproc={self.nproc} is more than this machine has, {there} {of}{'s' * (there != 1)}: give nproc={there} "
                "or less."
            )

    def _check_machines(self) -> None:
        several = self.nnodes != 1
        if several and not _are_nodes(self.nnodes):
            raise TrainingError(
                f"nnodes must be a number of machines, at least 1, or a range such as '1:4', not {self.nnodes!r}."
            )
        if several and self.rdzv is None:
            raise TrainingError(
                f"nnodes={self.nnodes!r} needs rdzv, the place where the machines meet: give "
                f'rdzv="{socket.gethostname()}:29400" to meet at this one.'
            )
        if several and self.directory is None:
            raise TrainingError(
                f"nnodes={self.nnodes!r} needs a directory that all machines see, for data and checkpoints: give "
                'directory="/shared/run".'
            )
        if self.rdzv is not None:
            _host_and_port(self.rdzv)

    def _check_backend(self, device: torch.device) -> None:
        backend = self.backend
        if backend is None:
            return
        known = sorted(name for name in dist.Backend.backend_list if name not in ("undefined", "fake"))
        if backend not in known:
            raise TrainingError(f"There is no backend {backend!r}; there is {', '.join(known)}.{near(backend, known)}")
        if not dist.is_backend_available(backend) or (backend == "nccl") != (device.type == "cuda"):
            raise TrainingError(
                f"The backend {backend!r} does not work here on {device.type}: give {_BACKENDS[device.type]!r}, or none."
            )

    def _check_replication(self) -> None:
        if self.bucket_cap_mb is not None and not self.bucket_cap_mb > 0:
            raise TrainingError(f"bucket_cap_mb must be a positive number of MiB, or None, not {self.bucket_cap_mb!r}.")
        if self.replication and self.strategy != "ddp":
            raise TrainingError(
                f"{next(iter(self.replication))} is an option of DistributedDataParallel, and strategy={self.strategy!r} does "
                'without it: leave it out, or give strategy="ddp".'
            )

    @property
    def replication(self) -> dict[str, Any]:
        """The options of DistributedDataParallel that differ from their defaults."""
        usual = LaunchPlan()
        given = {name: getattr(self, name) for name in _REPLICATION}
        return {name: value for name, value in given.items() if value != getattr(usual, name)}

    def _check_port(self, rdzv: str) -> None:
        host, port = _host_and_port(rdzv)
        try:
            socket.create_server((host, port)).close()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise TrainingError(
                    f"Port {port} of {host} is in use: give another one in rdzv, or none for one machine."
                ) from None
            if self.nnodes == 1:
                raise TrainingError(f"rdzv={rdzv!r} is no place on this machine ({error}): leave rdzv out.") from error

    def worker(self, directory: Path, device: torch.device, epochs: int) -> list[str]:
        """Return the arguments of each process: the run's `directory`, the kind of `device`, and the last of the `epochs`."""
        return [
            str(directory),
            f"--strategy={self.strategy}",
            f"--backend={self.backend or _BACKENDS[device.type]}",
            f"--device={device.type}",
            f"--epochs={epochs}",
            f"--timeout={self.timeout:g}",
            *["--sync-batch-norm"] * self.sync_batch_norm,
            *([f"--ddp={json.dumps(self.replication)}"] if self.replication else []),
            *(f"--import={name}" for name in self.imports),
        ]

    def torchrun(self, run: str) -> list[str]:
        """Return the arguments of torchrun on each machine, for the run called `run`."""
        return [
            f"--nnodes={self.nnodes}",
            f"--nproc-per-node={self.nproc}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={self.rdzv or 'localhost:0'}",
            f"--rdzv-id={run}",
            f"--max-restarts={self.max_restarts}",
        ]


def printed(torchrun: list[str], worker: list[str]) -> str:
    """Return the command as text for a shell."""
    return shlex.join(["torchrun", *torchrun, "-m", WORKER, *worker])


def started(torchrun: list[str], worker: list[str], logs: Path) -> list[str]:
    """Return the command for a child process that ends with this one, with a log file for each process."""
    own = [f"--log-dir={logs}", "--redirects=3"]
    bound = ["-m", "pnne_nb.process.parent", str(os.getpid())]
    return [sys.executable, *bound, "torch.distributed.run", *torchrun, *own, "-m", WORKER, *worker]


def _are_nodes(nnodes: int | str) -> bool:
    if isinstance(nnodes, int):
        return nnodes >= 1
    least, colon, most = nnodes.partition(":")
    return bool(colon) and least.isdecimal() and most.isdecimal() and 1 <= int(least) <= int(most)


def _host_and_port(rdzv: str) -> tuple[str, int]:
    host, colon, port = rdzv.rpartition(":")
    if not (host and colon and port.isdecimal() and int(port) < 1 << 16):
        raise TrainingError(f'rdzv must be a host and a port such as "node1:29400", not {rdzv!r}.')
    return host, int(port)
