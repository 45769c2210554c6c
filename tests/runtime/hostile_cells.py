"""Cells that do to the model of a training, and beside it, whatever cells do; run in a real kernel.

``SETUP`` makes the names that they use: ``net``, its engine ``e``, data ``X`` and ``Y``. None of them may crash or hang the
kernel or the training. Those of ``CELLS`` and ``INTERRUPTED`` may not change the training: not one bit of any loss. Those of
``TOLD`` change it, and somebody must be told; those of ``UNSEEN`` and ``SILENT`` are what docs/explanation/threads.md names as
unseen: the first mean to change nothing. Each of these three has a training of its own, between ``FRESH`` and ``FOUND``.
"""

from __future__ import annotations

from pathlib import Path

SETUP = Path(__file__).with_name("hostile_setup.txt").read_text(encoding="utf-8")

FRESH = """
first = net, e, X, Y
e.pause()
net, e, X, Y = fresh()
e.start(process=first[1].in_process)
optimizer = e.recipe.optimizer
while e.progress.step < 5: e.wait(0.01)
"""
"""Begins another training, for one cell."""

FOUND = """
e.pause()
losses, tellings = e.history["loss"], [frame.message for frame in e.history.anomalies if frame.kind == "model-kept"]
e.stop()
other = fresh()[1]
other.step(len(losses))
same = np.array_equal(other.history["loss"], losses)
other.stop()
print("told" if len(tellings) == 1 else f"told {len(tellings)} times" if tellings else "same" if same else "silent")
net, e, X, Y = first
e.resume()
"""
"""What became of that training: it was told of once, it was the same as without the cell, or it differs in silence."""

TOLD: dict[str, str] = {
    "a weight": "with torch.no_grad(): net.rest[0].weight[0] = 0",
    "a weight through .data": "net.rest[0].weight.data.mul_(2)",
    "some of a weight through .data": "net.rest[0].weight.data[0] = 0",
    "the .data of a weight": "net.rest[0].weight.data = torch.zeros(64, 64)",
    "a weight through out": "torch.mul(net.rest[0].weight.data, 2, out=net.rest[0].weight.data)",
    "a weight in vmap": "torch.func.vmap(lambda w: w.mul_(2))(net.rest[0].weight.data)",
    "an initialised weight": "nn.init.zeros_(net.rest[0].weight.data)",
    "weights of a vector": """
vector = torch.zeros(sum(weight.numel() for weight in net.parameters()))
torch.nn.utils.vector_to_parameters(vector, net.parameters())
""",
    "a state": "net.load_state_dict({name: torch.zeros_like(value) for name, value in net.state_dict().items()})",
    "another optimizer": "net(X).sum().backward(); torch.optim.SGD(net.parameters(), 0.1).step()",
    "frozen": "net.fc1.requires_grad_(False)",
    "a frozen weight": "net.fc1.weight.requires_grad = False",
    "half": "net.half()",
    "double and back": "net.double(); net.float()",
    "the optimizer's state": "for state in e.optimizer.state.values(): state['exp_avg'].zero_()",
    "the state of an optimizer from before": "for state in optimizer.state.values(): state['exp_avg'].data.zero_()",
    "a step": "e.optimizer.step()",
    "the data": "X[:] = 0",
    "the data, in place": "X.mul_(2)",
    "one number of the data through .data": "X.data[3, 3] = 9",
    "the targets": "Y.fill_(1)",
}
"""Cells that change a training without meaning it, by torch; beside a process they change nothing."""

SILENT: dict[str, str] = {
    "a weight as NumPy": "net.rest[0].weight.detach().numpy()[:] = 0",
    "a number of a weight as NumPy": "net.rest[0].weight.detach().numpy()[3, 3] += 1",
    "a weight by DLPack": "np.from_dlpack(net.rest[0].weight.detach())[:] = 0",
    "a weight by its pointer": "ctypes.memset(net.rest[0].weight.data_ptr(), 0, 64)",
    "the storage of a weight": "net.rest[0].weight.untyped_storage().fill_(0)",
    "another parameter": "net.rest[0].weight = nn.Parameter(torch.zeros(64, 64))",
    "a removed bias": "net.rest[0].bias = None",
    "a weight in a thread": "in_threads(lambda: net.rest[0].weight.data.mul_(2), 1)",
    "another layer": "net.rest[1] = nn.Identity()",
    "another layer, past the module": "net.rest._modules['1'] = nn.Identity()",
    "a removed layer": "del net.rest[1]",
    "another layer behind": "net.rest.append(nn.Identity())",
    "another forward": "net.rest[1].forward = lambda x: x",
    "another forward of the model": "old = net.forward; net.forward = lambda x: old(x) * 2",
    "an option": "net.drop.p = 0.9",
    "a hook": "net.fc1.register_forward_hook(lambda m, a, o: o * 2)",
    "a hook before": "net.fc1.register_forward_pre_hook(lambda m, a: (a[0] * 2,))",
    "a hook of the backward pass": "net.fc1.register_full_backward_hook(lambda m, i, o: None)",
    "a hook of a weight": "net.fc1.weight.register_hook(lambda g: g * 0)",
    "the optimizer's rate": "e.optimizer.param_groups[0]['lr'] = 0.5",
    "the rate of an optimizer from before": "optimizer.param_groups[0]['lr'] = 0.5",
    "no state": "optimizer.state.clear()",
    "another group": "e.optimizer.add_param_group({'params': [nn.Parameter(torch.zeros(1))]})",
    "a parametrisation": "torch.nn.utils.parametrizations.weight_norm(net.fc1)",
    "the data as NumPy": "X.numpy()[:] = 0",
}
"""Cells that change a training past torch, which nobody is told; beside a process they change nothing."""

UNSEEN: dict[str, str] = {
    "compiled, in threads": """
f2 = torch.compile(lambda x: net.rest[2](x).sum(), backend="eager")
in_threads(lambda: f2(H[:8]).backward(), 2)
""",
    "threads, draws": "in_threads(lambda: [(torch.rand(9), torch.manual_seed(3), nn.Linear(3, 3)) for _ in range(20)])",
    "the default generator": "for _ in range(50): torch.default_generator.manual_seed(7); torch.default_generator.seed()",
    "a thread that outlives its cell": """
def use_late(net=net):
    for _ in range(50): quiet(lambda: net.rest[0](H[:8]).sum().backward(), RuntimeError)
late = threading.Thread(target=use_late)
late.start()
""",
    "a method, put back": "net.drop.forward = lambda x: x; net(X[:4]); del net.drop.forward",
}
"""Cells that mean to change nothing, and may: what they do in the middle of a step is not seen."""

CELLS: dict[str, str] = {
    # Parts of the model
    "a part, forward": "[net.rest(torch.randn(32, 64)) for _ in range(50)]",
    "a part, backward": "for _ in range(200): net.rest[0](torch.randn(64, 64)).sum().backward()",
    "a weight": "for _ in range(200): F.linear(torch.randn(8, 64), net.rest[0].weight).sum().backward()",
    "a view of a weight": "v = net.rest[0].weight.view(-1); [(v * 2).sum().backward() for _ in range(50)]",
    "a detached weight": "d = net.rest[0].weight.detach(); [float((d @ d).sum()) for _ in range(50)]",
    "batch norm in train mode": "[net.bn(torch.randn(16, 64) + 9) for _ in range(50)]",
    "dropout to eval": "for _ in range(50): net.drop.eval(); net.drop.train()",
    "dropout left in eval": "net.drop.eval()",
    "the model left in eval": "net.eval()",
    "a part's own loop": "o = torch.zeros(4, 64); [o.add_(net.fc1(torch.randn(4, 16)).detach()) for _ in range(50)]",
    "a buffer": "net.bn.running_mean.fill_(7)",
    "a buffer through .data": "net.bn.running_mean.data.fill_(7)",
    "another buffer": "net.bn.running_mean = torch.ones(64)",
    "a buffer with other memory": "net.bn.running_var.data = torch.ones(64)",
    "an attribute of nobody's": "net.note = 'seen'; del net.note",
    "gradients of the weights": "[None if p.grad is None else p.grad.sum().item() for _ in range(20) for p in net.parameters()]",
    "torch.autograd.grad": "[torch.autograd.grad(net(X[:8]).sum(), list(net.parameters())) for _ in range(20)]",
    "torch.autograd.backward": "[torch.autograd.backward([net(X[:8]).sum(), net.fc1(X[:8]).sum()]) for _ in range(20)]",
    "double backward": """
g, = torch.autograd.grad(net(X[:8]).sum(), [net.fc1.weight], create_graph=True)
g.square().sum().backward()
""",
    "jacobian": "torch.autograd.functional.jacobian(lambda x: net.rest(x).sum(0), torch.randn(4, 64))",
    "anomaly detection": """
with torch.autograd.detect_anomaly():
    net(X[:8]).sum().backward()
""",
    "checkpointing": """
from torch.utils.checkpoint import checkpoint
checkpoint(net.rest, torch.randn(8, 64, requires_grad=True), use_reentrant=False).sum().backward()
""",
    "state of a part": "[net.rest.state_dict() for _ in range(30)]",
    "a copy of a part": "c = copy.deepcopy(net.rest); c(torch.randn(4, 64)).sum().backward(); c.eval()",
    "a shallow copy of a part": "c = copy.copy(net.drop); c.eval()",
    "a pickled part": "pickle.loads(pickle.dumps(net.fc1))(X[:4]).sum().backward()",
    "a saved model": "f = io.BytesIO(); torch.save(net.state_dict(), f)",
    "weights as one vector": "torch.nn.utils.parameters_to_vector(net.parameters()).norm()",
    "weights as NumPy": "[p.detach().numpy().copy() for p in net.parameters()]",
    "norm of the gradients": "torch.nn.utils.get_total_norm([p for p in net.parameters()])",
    "printed weights": "repr(net.fc1.weight), str(net.bn.running_mean)",
    "shapes alone": "[(p.shape, p.dtype, p.device, p.numel()) for p in net.parameters()]; repr(net)",
    "functional_call": """
from torch.func import functional_call
other = {n: torch.zeros_like(p) for n, p in net.named_parameters()}
for _ in range(20): functional_call(net, other, (X[:8],))
""",
    "vmap and grad of torch.func": """
from torch.func import grad, vmap, functional_call
own = {n: p.detach() for n, p in net.rest.named_parameters()}
vmap(grad(lambda w, x: functional_call(net.rest, w, (x,)).sum()), (None, 0))(own, torch.randn(5, 64))
""",
    "grad of torch.func": "net.eval(); torch.func.grad(lambda x: net(x).sum())(X[:8]); net.train()",
    "grad of torch.func, failing": "quiet(lambda: torch.func.grad(lambda x: net(x).sum())(X[:8]), RuntimeError)",
    "grad of torch.func, in threads": """
in_threads(lambda: quiet(lambda: torch.func.grad(lambda x: net(x).sum())(X[:8]), RuntimeError))
""",
    "jvp of torch.func": "torch.func.jvp(net.rest, (torch.randn(4, 64),), (torch.randn(4, 64),))",
    "hessian of torch.func": "torch.func.hessian(lambda x: net.rest(x).sum())(torch.randn(2, 64))",
    "vmap over a weight": "[torch.func.vmap(lambda w: w.sum())(net.fc1.weight) for _ in range(20)]",
    "grad by a weight": "[torch.func.grad(lambda w: (X[:8] @ w.t()).sum())(net.fc1.weight) for _ in range(20)]",
    "saved tensors elsewhere": """
with torch.autograd.graph.save_on_cpu():
    net(X[:8]).sum().backward()
""",
    "make_fx": """
from torch.fx.experimental.proxy_tensor import make_fx
make_fx(lambda x: net(x))(X[:4])
""",
    "hooks": """
h = net.fc1.register_forward_hook(lambda m, a, o: None)
net(X[:4]); h.remove()
""",
    "a hook left for some steps": """
seen = []
h = net.fc1.register_forward_hook(lambda m, a, o: seen.append(1))
time.sleep(0.05); h.remove()
""",
    "through the engine": "m = e.model; m(X[:8]).sum().backward(); m.eval()",
    "the engine's optimizer, looked at": """
states = e.optimizer.state.values()
[value.sum().item() for state in states for value in state.values() if torch.is_tensor(value)]
""",
    "inference": "pn.InferenceEngine(net, device='cpu').predict(X[:64])",
    "inspector": "i = pn.Inspector(net); i.watch('fc*'); i.run_inspection(X[:8]); i.summary()",
    "summary": "pn.summary(net, (X[:2],))",
    "from_module": "pn.from_module(net, (X[:4],))",
    # Autograd functions
    "an autograd function": "for _ in range(100): Scaled.apply(torch.randn(4, 64), net.rest[0].weight).sum().backward()",
    "a failing backward": "for _ in range(20): quiet(lambda: Failing.apply(net(X[:8])).sum().backward(), RuntimeError)",
    "a failing backward of a part": """
for _ in range(20):
    y = Failing.apply(net.rest[0](torch.randn(4, 64)))
    quiet(lambda: y.sum().backward(), RuntimeError)
""",
    "an output kept": "kept_output = net(X[:8])",
    "an output of an earlier cell": """
try: quiet(lambda: kept_output.sum().backward(), RuntimeError)
except NameError: pass
kept_output = torch.zeros((), requires_grad=True)
""",
    "a hook in a backward pass": """
y = net.fc1(X[:8])
y.register_hook(lambda g: g * net.rest(torch.randn(2, 64)).mean().detach())
y.sum().backward()
""",
    # Threads
    "threads, forward": "in_threads(lambda: [net(X[:8]) for _ in range(10)])",
    "threads, backward": "in_threads(lambda: [net(X[:8]).sum().backward() for _ in range(20)])",
    "threads, a part": "in_threads(lambda: [net.rest[0](H[:16]).sum().backward() for _ in range(20)])",
    "threads, no_grad": """
def look():
    with torch.no_grad():
        for _ in range(20): net.rest(H[:8])
in_threads(look)
""",
    "threads, batch norm": "in_threads(lambda: [net.bn(H[:16] - 5) for _ in range(20)])",
    "threads, eval and train": "in_threads(lambda: [(net.eval(), net.train()) for _ in range(20)])",
    "threads, dropout to eval": "in_threads(lambda: [(net.drop.eval(), net.drop.train()) for _ in range(20)])",
    "threads, failing backward": """
def fail():
    for _ in range(10): quiet(lambda: Failing.apply(net(X[:8])).sum().backward(), RuntimeError)
in_threads(fail)
""",
    "a thread that dies with an output": """
def die():
    global left
    left = net(X[:8])
in_threads(die, 1)
""",
    "a pool of before, backward": "list(pool.map(lambda _: net(X[:8]).sum().backward(), range(20)))",
    "a pool of before, a part": "list(pool.map(lambda _: net.rest[0](H[:8]).sum().backward(), range(20)))",
    "asyncio, in a thread": "await asyncio.to_thread(lambda: net(X[:8]).sum().backward())",
    "asyncio, a task": """
async def use():
    for _ in range(5):
        net(X[:8]).sum().backward()
        await asyncio.sleep(0)
await asyncio.gather(use(), use())
""",
    "asyncio, a task that outlives its cell": """
async def use_later():
    for _ in range(5):
        await asyncio.sleep(0.01)
        quiet(lambda: net.rest[0](H[:8]).sum().backward(), RuntimeError)
task = asyncio.ensure_future(use_later())
""",
    "commands from threads": "in_threads(lambda: [(e.pause(wait=False), e.resume()) for _ in range(20)]); e.resume()",
    "resume while it is used": """
for _ in range(20):
    y = net(X[:8])
    in_threads(e.resume, 1)
    y.sum().backward()
""",
    # Compiled code
    "torch.compile of the model": """
compiled = torch.compile(net, backend="aot_eager")
for _ in range(3): compiled(X[:8]).sum().backward()
""",
    "compiled before, without gradients": """
try:
    with torch.no_grad(): compiled(X[:8])
except NameError: pass
""",
    "torch.compile of a part": "torch.compile(net.rest, backend='aot_eager')(torch.randn(8, 64)).sum().backward()",
    "torch.compile of a function": """
f = torch.compile(lambda x: net.rest[0](x).sum(), backend="aot_eager")
for _ in range(3): f(torch.randn(8, 64)).backward()
""",
    "torch.compile of a function as a whole": """
whole = torch.compile(lambda x: net.rest[0](x).sum(), backend="aot_eager", fullgraph=True)
quiet(lambda: whole(torch.randn(8, 64)), RuntimeError)
with e.paused(): whole(torch.randn(8, 64)).backward()
""",
    "jit.trace": "s = torch.jit.trace(copy.deepcopy(net).eval(), X[:4]); s(X[:4])",
    "jit.script of a part": "s = torch.jit.script(e.snapshot().rest[0]); [s(H[:8]).sum().backward() for _ in range(20)]",
    "torch.export": "torch.export.export(copy.deepcopy(net), (X[:4],))",
    "fx": "torch.fx.symbolic_trace(net.rest)(torch.randn(4, 64)).sum().backward()",
    # Random numbers
    "draws": "torch.rand(1000); torch.manual_seed(5); torch.randperm(100); nn.Linear(9, 9); F.dropout(torch.ones(9))",
    "its state": "s = torch.get_rng_state(); torch.seed(); torch.set_rng_state(s)",
    "draws of Python and NumPy": "random.seed(3); [random.random() for _ in range(99)]; np.random.seed(3); np.random.rand(99)",
    "a sampler": "list(torch.utils.data.RandomSampler(range(100))); torch.utils.data.random_split(range(100), [50, 50])",
    # Forks
    "workers": "assert len(list(torch.utils.data.DataLoader(torch.arange(32), num_workers=2))) == 32",
    "workers that draw": """
class Noise(torch.utils.data.Dataset):
    def __len__(self): return 16
    def __getitem__(self, i): return torch.rand(3) + np.random.rand() + random.random()
assert len(list(torch.utils.data.DataLoader(Noise(), num_workers=2))) == 16
""",
    "a fork": """
pid = os.fork()
if not pid:
    torch.manual_seed(0); torch.rand(3); os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
""",
    "a pool of processes": """
with multiprocessing.get_context("fork").Pool(2) as processes:
    assert processes.map(abs, range(8)) == list(range(8))
""",
    "a fork in a thread": """
def fork():
    pid = os.fork()
    if not pid:
        torch.rand(3); os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
in_threads(fork, 2)
""",
    # Extensions in C, and memory
    "an extension reads a weight": """
c = extension()
if c: [c.total(net.fc1.weight.data_ptr(), net.fc1.weight.numel()) for _ in range(50)]
""",
    "an extension reads a weight, in threads": """
c = extension()
if c: in_threads(lambda: [c.total(net.rest[0].weight.data_ptr(), net.rest[0].weight.numel()) for _ in range(50)])
""",
    "an extension keeps the lock": """
c = extension(ctypes.PyDLL)
if c: [c.churn(10**6) for _ in range(10)]
""",
    "an extension allocates, in threads": """
c = extension()
if c: in_threads(lambda: c.churn(10**6))
""",
    "an extension calls back": """
def use():
    net.rest[0](torch.randn(8, 64)).sum().backward()
    return 0
c, back = extension(), Callback(use)
if c: [c.call(back) for _ in range(20)]
""",
    "the memory of a weight, written and put back": """
memory, size = net.fc1.weight.data_ptr(), net.fc1.weight.numel() * 4
kept = ctypes.string_at(memory, size)
ctypes.memset(memory, 0, size)
sum(range(10**6))
ctypes.memmove(memory, kept, size)
""",
    "a weight as NumPy, written and put back": """
w = net.rest[2].weight.detach().numpy()
kept = w.copy()
w[:] = 0
sum(range(10**6))
w[:] = kept
""",
    # Of all kinds
    "garbage": "net(X[:8]); gc.collect()",
    "another model": """
o = nn.Linear(16, 4)
p = torch.optim.SGD(o.parameters(), 0.1)
for _ in range(20):
    p.zero_grad()
    F.cross_entropy(o(X), Y).backward()
    p.step()
""",
    "another training": """
e2 = pn.TrainingEngine(nn.Linear(16, 4), (X, Y), epochs=2, device="cpu", seed=3)
e2.start().wait()
""",
    "threads of torch": "n = torch.get_num_threads(); torch.set_num_threads(1); torch.set_num_threads(n)",
    "gradients off": "torch.set_grad_enabled(False); net(X[:4]); torch.set_grad_enabled(True)",
    "default dtype": "torch.set_default_dtype(torch.float64); torch.rand(3); torch.set_default_dtype(torch.float32)",
    "default device": "torch.set_default_device('cpu'); net(X[:4]); torch.set_default_device(None)",
    "a function mode": """
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, f, t, a=(), k=None): return f(*a, **(k or {}))
with Mode(): net(X[:4]).sum().backward()
""",
    "a dispatch mode": """
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False): net(X[:4]).sum().backward()
""",
    "a long C call": "re.match(r'(a?){20}a{20}', 'a' * 20)",
    "an error": "net(X[:8]); raise ValueError('on purpose')",
    "a wrong shape": "quiet(lambda: net(torch.randn(3, 3)), RuntimeError)",
    "exit of a thread": "in_threads(lambda: (net(X[:4]), sys.exit()))",
    "recursion": "def deep(n): return net.fc1(X[:2]).sum() if n == 0 else deep(n - 1)\ndeep(200).backward()",
}

INTERRUPTED: dict[str, str] = {
    "a loop": "while True: net(X[:8]).sum().backward()",
    "a loop over a part": "while True: net.rest[0](torch.randn(8, 64)).sum().backward()",
    "a loop of draws": "while True: torch.rand(9); torch.manual_seed(1)",
    "a sleep with the model": "net(X[:8]); time.sleep(60)",
    "a wait": "e.wait()",
    "a paused block": "with e.paused() as m:\n    while True: m.state_dict()",
    "eval and train": "while True: net.eval(); net.train()",
    "state": "while True: net.state_dict()",
    "pause and resume": "while True: e.pause(); e.resume()",
    "steps": "e.pause()\ntry:\n    while True: e.step()\nfinally:\n    e.resume()",
    "threads": "while True: in_threads(lambda: net(X[:8]).sum().backward(), 2)",
    "arriving": "while True:\n    with e.paused(): pass",
}
"""Cells that somebody interrupts after a moment."""
