"""Writes a program as PyTorch source.

There is one writer and two forms of a program. `compile` runs the plain form: one statement for each node and one class
for each nested graph. `to_source` returns the readable form (`compiler.codegen.readable`): nested calls,
``nn.Sequential``, repeated blocks as one class. They stay two because the plain form maps each line to one node, which
error messages, hooks, the NaN locator and the memory plan need: a ResNet-50 has 119 calls on 119 lines in the plain
form, and on 32 in the readable one. The readable form also needs shape inference, which makes the class of a document
with 100 nodes three times as expensive (23 ms of CPU instead of 8). ``tests/compiler/importing/test_shown_source.py``
and ``tests/compiler/pipeline/test_compile.py`` run both forms and compare keys, parameters and results.

The text contains only validated identifiers, names of the catalogue and constants of `compiler.ir.literals`.

Nodes of module types, activations and pooling included, are submodules, so that hooks, profilers and the
inspector see them under the names on screen. Nodes of function types stay plain function calls: a person who adds
``relu`` rather than ``ReLU`` has chosen the function.
"""

from __future__ import annotations

import builtins
import textwrap
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby, takewhile
from typing import assert_never

from pnne_nb.catalog.custom import MADE
from pnne_nb.catalog.operators import CHECK_STRUCTURE
from pnne_nb.compiler.codegen.custom_source import CustomSource, import_line
from pnne_nb.compiler.codegen.expressions import ITSELF, Expressions, takes_device
from pnne_nb.compiler.codegen.prelude import CHECKPOINTED, EQUIPPED, REMADE, STRUCTURED, WHOLE
from pnne_nb.compiler.codegen.source_map import Generated, NodeLine, Section, SourcePart
from pnne_nb.compiler.codegen.syntax import context_calls
from pnne_nb.compiler.ir.call_properties import CHOICES, Branch, branches
from pnne_nb.compiler.ir.literals import emit
from pnne_nb.compiler.ir.program import (
    NOWHERE,
    Call,
    Chain,
    Inside,
    Layer,
    Member,
    Nested,
    Opaque,
    Program,
    Ref,
    Unit,
    Weight,
    nested_in,
    runs_alike,
)
from pnne_nb.compiler.ir.python_operators import STATEMENTS
from pnne_nb.compiler.ir.text import INDENT, WIDTH, Bracketed, Text, behind, display, laid_out, spread
from pnne_nb.compiler.ir.variables import Variables, camel, is_dotted, is_identifier, parameter_name, unique

_BUILTINS = frozenset(dir(builtins))

_MANY = 6
"""Results that are not written one by one in the head of a ``forward``: they would not fit into its line."""


def generate(
    unit: Unit,
    comments: Mapping[tuple[str, str], str] | None = None,
    known: Generated | None = None,
    places: Mapping[str, str] = {},
) -> Generated:
    """Write a program as source.

    Args:
        unit: The lowered document.
        comments: What to say at the end of a node's line, by (definition, node), in source that is shown. What runs
            (None) also deletes what is no longer needed.
        known: What was written of an earlier version, also without comments; classes that are the same are taken
            over from it.
        places: Paths of nodes of registered types, by target, for messages. Source that is shown carries the text of such
            types; what runs has them.

    Raises:
        CompileError: If a constant or a name cannot be written, or a registered type has no source.
    """
    return _Writer(unit, comments, known, places).write()


def _plain(text: str) -> str:
    """Return a text that is safe in a docstring: a reason may quote an error of a module."""
    words = "".join(letter if letter.isprintable() and letter not in '\\"' else "'" for letter in text[:200])
    return f"{words[0].upper()}{words[1:].rstrip('.')}." if words else ""


def _by_attribute(members: tuple[Member, ...]) -> Iterator[tuple[str, list[Member]]]:
    """Yield the attributes of a class, each with its member, or with those that it holds in a list or dictionary."""
    if any("." in member.name for member in members):
        for top, inside in groupby(members, lambda member: member.name.partition(".")[0]):
            yield top, list(inside)
    else:
        for member in members:
            yield member.name, [member]


class _Writer:
    def __init__(
        self,
        unit: Unit,
        comments: Mapping[tuple[str, str], str] | None,
        known: Generated | None,
        places: Mapping[str, str],
    ) -> None:
        self._unit = unit
        self._comments = comments or {}
        self._shown = comments is not None
        self._before = known.sections if known is not None else {}
        self._expressions = Expressions(unit.objects)
        calls = [call for program in unit.programs.values() for call in program.calls]
        if any(call.again == "restored" for call in calls):
            self._expressions.reserved |= {"checkpointed", "restored", "contextmanager", "nullcontext"}
        if any(call.kind == "function" and call.target.startswith(f"{MADE}.") for call in calls):
            self._expressions.reserved |= {"remade"}
        if any(call.target == CHECK_STRUCTURE for call in calls):
            self._expressions.reserved |= {CHECK_STRUCTURE}
        if unit.boxes:
            self._expressions.reserved |= {"equipped", "copy"}
        if unit.root.whole:
            self._expressions.reserved |= {"become", "joined", ITSELF, "copy", "functools"}
        self._lines: list[str] = []  # of the section that is being written
        self._margin = "        "
        self._elses: set[int] = set()
        self._inside: Inside = NOWHERE
        self._map: dict[int, NodeLine] = {}
        self._opaque: dict[str, tuple[tuple[str, ...], ...]] = {}  # definition -> paths inside it
        self._custom = self._carried(places) if self._shown else None
        taken = {*self._expressions.reserved, *_BUILTINS, *(self._custom.names if self._custom else ())}
        self._classes: dict[str, str] = {}
        for definition in ["", *(id for id in unit.programs if id)]:
            name = unique(camel(definition or unit.name), taken)
            taken.add(name)
            self._classes[definition] = name

    def _carried(self, places: Mapping[str, str]) -> CustomSource | None:
        """Return the text of registered types that nothing can import, if there are any."""
        names = self._expressions.names
        objects = {names[target]: value for target, value in self._unit.objects.items()}
        objects = {name: value for name, value in objects.items() if import_line(name, value) is None}
        nodes = {names[target]: place for target, place in places.items() if target in names}
        return CustomSource(objects, nodes) if objects else None

    def write(self) -> Generated:
        written = {id: self._section(program) for id, program in self._unit.programs.items()}
        self._expressions.used = {name for section in written.values() for name in section.used}
        self._expressions.imports = {k: v for section in written.values() for k, v in section.imports.items()}
        header = self._header()
        sections: dict[str, tuple[int, Section]] = {}
        above = len(header)
        for id, section in written.items():
            sections[id] = above, section
            above += len(section.lines)
        start = "\n".join(header) + "\n"
        return Generated(
            name=self._classes[""],
            text=start + "".join(section.text for section in written.values()),
            header=start,
            sections=sections,
            classes=self._classes,
            imports=self._expressions.imports,
            absent={
                id: names
                for id, program in self._unit.programs.items()
                if (names := tuple([m.name for m in program.members if type(m) is Weight and m.absent]))
            },
            devices=self._unit.devices,
            boxes=self._unit.boxes,
            frozen=self._unit.frozen,
            still=self._unit.still,
        )

    def _header(self) -> list[str]:
        whole = self._unit.root.whole
        used = {*self._expressions.used, *(("copy",) if self._unit.boxes or whole else ())}
        used |= {"functools"} if whole else set()
        self._expressions.used |= self._custom.used if self._custom is not None else set()
        lines = [f"import {name}" for name in ("collections", "copy", "functools", "math", "operator") if name in used]
        checkpointed = "checkpointed" in self._expressions.used
        lines += ["from contextlib import contextmanager, nullcontext"] if checkpointed else []
        lines += [""] if lines else []
        if "torch" in self._expressions.used:
            lines.append("import torch")
        if "F" in self._expressions.used:
            lines.append("import torch.nn.functional as F")
        lines += self._expressions.import_lines(carried=self._custom is not None)
        if self._custom is not None:
            lines = ["from __future__ import annotations", "", *lines] if self._custom.future else lines
            lines += [line for line in self._custom.imports if line not in lines]
            lines += self._custom.text
        lines += CHECKPOINTED if checkpointed else []
        lines += REMADE if "remade" in self._expressions.used else []
        lines += STRUCTURED if CHECK_STRUCTURE in self._expressions.used else []
        return [*lines, *(EQUIPPED if self._unit.boxes else []), *(WHOLE if whole else [])]

    def _section(self, program: Program) -> Section:
        opaque = self._opaque[program.definition] = tuple(self._opaque_paths(program))
        context = self._context(program)
        _, kept = self._before.get(program.definition, (0, None))
        if kept is not None and kept.program is program and kept.context == context:
            return kept
        head = self._part(self._head, program)
        same = kept is not None and kept.context == context and runs_alike(kept.program, program)
        return Section(program, context, head, kept.body if kept and same else self._part(self._body, program), opaque)

    def _part(self, write: Callable[[Program], None], program: Program) -> SourcePart:
        """Return what a method writes of a class."""
        self._lines, self._map = [], {}
        self._expressions.used, self._expressions.imports = set(), {}
        write(program)
        return SourcePart(self._lines, self._map, self._expressions.used, self._expressions.imports)

    def _context(self, program: Program) -> object:
        """Return what the text of a class depends on beside its program."""
        nested = [
            (member.definition, self._classes[member.definition], self._opaque[member.definition])
            for member in program.blocks
            if member.definition
        ]
        held = self._opaque[program.definition]
        # Only the names of what is passed in keep clear of all classes, and only they are described.
        told = (list(self._classes.values()), list(self._opaque_members(program))) if held else ()
        expressions = self._expressions
        return (self._classes[program.definition], nested, told, expressions.names, set(expressions.reserved))

    def _opaque_paths(self, program: Program) -> Iterator[tuple[str, ...]]:
        """Yield where a class has opaque modules; none is in a chain that is no class."""
        for member in program.blocks:
            if isinstance(member, Opaque):
                yield (member.name,)
            if member.definition:
                yield from ((member.name, *path) for path in self._opaque[member.definition])

    def _head(self, program: Program) -> None:
        self._expressions.lists.clear()
        plain = f"nn.{program.holds or 'Module'}"
        base = {"": plain, "chain": "nn.Sequential"}.get(program.form, "nn.ModuleList")
        self._lines += ["", "", f"class {self._classes[program.definition]}({base}):"]
        if program.holds == "Module":
            self._lines += ['    """Submodules of the opaque module of that name, whose own code calls them."""', ""]
        if program.members:
            self._constructor(program)
            self._lines += [""] if program.form != "chain" and not program.holds else []
        elif program.holds:
            self._lines += ["    pass"]

    def _body(self, program: Program) -> None:
        if program.form != "chain" and not program.holds:
            self._forward(program)

    def _constructor(self, program: Program) -> None:
        taken = {*self._expressions.reserved, *self._classes.values(), *(name for name, *_ in program.parameters)}
        names: dict[tuple[str, ...], str] = {}
        for path in self._opaque[program.definition]:
            names[path] = unique(parameter_name("_".join(path).replace(".", "_")), taken)
            taken.add(names[path])
        parameters = [f"{name}: nn.Module" for name in names.values()]
        for name, kind, default in program.parameters:
            parameters.append(f"{name}: {kind}{'' if default is None else f' = {emit(default.value)}'}")
        self._lines += laid_out(Bracketed("def __init__(", ("self", *parameters), ") -> None:"), INDENT)
        self._needs(program, names)
        # What forward needs is kept as an attribute, once the module can have any.
        local = [f"        {name} = {text}" for name, text in program.sizes if name.isidentifier()]
        kept = [f"        {name} = {text}" for name, text in program.sizes if not name.isidentifier()]
        self._lines += local
        if program.form:
            self._expressions.lists.add("")
            chain = program.form == "chain"
            modules = [member for member in program.members if not isinstance(member, Weight)]
            made = [self._made(member, names) for member in modules]
            text = Bracketed("super().__init__(", spread(made) if chain else (display(made),))
            self._statement(text, NodeLine(program.definition, modules[0].name, calls=False))
            for member in program.members:
                if isinstance(member, Weight):
                    self._member(program, member, names)
            self._lines += kept
            return
        self._lines += ["        super().__init__()", *kept]
        ties, weights = dict(program.ties), set[str]()
        for top, held in _by_attribute(program.members):
            if "." in held[0].name:  # a list or dictionary of modules that are called one by one
                contents = {tuple(member.name.split(".")[1:]): self._made(member, names) for member in held}
                line = NodeLine(program.definition, held[0].name, calls=False)
                self._assign(top, self._expressions.container(top, contents), "add_module", line)
            elif isinstance(held[0], Weight):
                self._member(program, held[0], names, ties.pop(top) if ties.get(top) in weights else "")
                weights.add(top)
            else:
                self._member(program, held[0], names)
        lists = self._expressions.lists.copy()
        if program.ties or program.frozen or program.still:
            self._expressions.lists.update(self._lists(program.members))
        for tied, other in ties.items():
            line = NodeLine(program.definition, tied.partition(".")[0], calls=False)
            self._statement(f"{self._expressions.held(tied)} = {self._expressions.held(other)}", line)
        for frozen in program.frozen:
            self._call_on(program, frozen, "requires_grad_(False)")
        if program.still:
            self._lines += ["        self.train()", ""]
            self._training(program)
        self._expressions.lists = lists

    def _training(self, program: Program) -> None:
        """Write that some modules stay in eval mode."""
        self._lines += [
            f"    def train(self, mode: bool = True) -> {emit(self._classes[program.definition])}:",
            "        super().train(mode)",
        ]
        for path in program.still:
            self._call_on(program, path, "eval()")
        self._lines.append("        return self")

    def _call_on(self, program: Program, path: str, call: str) -> None:
        line = NodeLine(program.definition, path.partition(".")[0], calls=False)
        self._statement(f"{self._expressions.held(path)}.{call}", line)

    def _lists(self, members: tuple[Member, ...], above: str = "") -> Iterator[str]:
        """Yield the paths of what is inside a class and is written as a list of modules."""
        for member in members:
            path = f"{above}{member.name}"
            inner: tuple[Member, ...] = ()
            if isinstance(member, Chain):
                inner = member.members
                yield path
            elif isinstance(member, Nested):
                program = self._unit.programs[member.definition]
                inner = program.members
                yield from [path] if program.form else []
            yield from self._lists(inner, f"{path}.")

    def _needs(self, program: Program, names: Mapping[tuple[str, ...], str]) -> None:
        """Write the docstring of the constructor arguments: the opaque modules."""
        if not names:
            return
        kinds = dict(self._opaque_members(program))
        self._lines += ['        """Takes the opaque modules of the graph.', "", "        Args:"]
        for path, name in names.items():
            member = kinds[path]
            kind = member.kind if is_dotted(member.kind) else "module"
            text = f"            {name}: A {kind}. {_plain(member.reason)}".rstrip()
            self._lines += textwrap.wrap(text, WIDTH, subsequent_indent=" " * 16)
        self._lines.append('        """')

    def _opaque_members(self, program: Program) -> Iterator[tuple[tuple[str, ...], Opaque]]:
        for member in program.blocks:
            if isinstance(member, Opaque):
                yield (member.name,), member
            if member.definition:
                inner = self._opaque_members(self._unit.programs[member.definition])
                yield from (((member.name, *path), opaque) for path, opaque in inner)

    def _made(self, member: Member, opaque: dict[tuple[str, ...], str]) -> Text:
        """Return the expression that constructs a member."""
        text: Text
        match member:
            case Layer(_, construction, device):
                text, _ = self._expressions.construction(construction)
                if device == "meta" and takes_device(construction.target):  # never anywhere else: it may be too large
                    return Bracketed(text.opening, (*text.items, 'device="meta"'))
            case Nested(name, definition):
                inner = self._opaque[definition]
                given = (f"{key}={self._expressions.argument(value)}" for key, value in member.arguments)
                text = Bracketed(f"{self._classes[definition]}(", (*(opaque[name, *path] for path in inner), *given))
            case Chain(_, members):
                text = Bracketed("nn.Sequential(", spread([self._made(each, opaque) for each in members]))
            case Opaque(name, definition=definition) if definition:
                held = (opaque[name, *path] for path in self._opaque[definition])
                parts = Bracketed(f"{self._classes[definition]}(", tuple(held))
                text = Bracketed("equipped(", (opaque[name,], str(parts)))
            case Opaque(name):
                text = opaque[name,]
            case Weight():
                return self._expressions.tensor(member)
            case _:
                assert_never(member)
        return text if member.device is None else behind(text, f".to({emit(member.device)})")

    def _member(self, program: Program, member: Member, opaque: dict[tuple[str, ...], str], tied: str = "") -> None:
        """Write the making of a member, or that it is the parameter or buffer of the name `tied`."""
        name, line = member.name, NodeLine(program.definition, member.name, calls=False)
        if type(member) is Layer and member.device is None and is_identifier(name):  # what most are
            call, plain = self._expressions.construction(member.construction)
            self._statement(call, line, "", f"self.{name} = ", plain)
            return
        text = self._expressions.held(tied) if tied else self._made(member, opaque)
        tail: tuple[str, ...]
        if name == program.whole:
            self._statement(Bracketed("become(self, ", (text,)), line)
            return
        if not isinstance(member, Weight):
            self._assign(name, text, "add_module", line)
            return
        drawn = "drawn again: distributed like the values of the imported module"
        unknown = "shape only: the values are those of the imported module"
        said = "" if tied or not member.absent else drawn if member.init == "normal" else unknown
        if member.trained:
            tail = () if member.requires_grad else ("requires_grad=False",)
            made = text if tied else Bracketed("nn.Parameter(", (text, *tail))
            self._assign(name, made, "register_parameter", line, said)
        else:
            tail = () if member.persistent else ("persistent=False",)
            self._statement(Bracketed("self.register_buffer(", (emit(name), text, *tail)), line, said)

    def _assign(self, name: str, text: Text, register: str, line: NodeLine, said: str = "") -> None:
        if is_identifier(name):
            self._statement(text, line, said, f"self.{name} = ")
        else:
            # A name such as "0" cannot be written after a dot; the key in state_dict is the same.
            self._statement(Bracketed(f"self.{register}(", (emit(name), text)), line, said)

    def _forward(self, program: Program) -> None:
        variables = Variables(program, self._expressions.reserved)
        self._expressions.variables = variables
        self._expressions.whole = program.whole
        if any(entry.tensor for entry in program.entries):
            self._expressions.used.add("torch")
        hints = {entry.node: ": torch.Tensor" if entry.tensor else "" for entry in program.entries}
        parameters = [f"{variables.entries[node]}{hint}" for node, hint in hints.items()]
        head = Bracketed("def forward(", ("self", *parameters), f"){self._returned(program)}:")
        self._lines += laid_out(head, INDENT)
        if program.form == "loop":
            self._loop(program, variables)
            return
        branch: Branch = ()
        conditional: dict[str, Branch] = {}
        expressions, shown, last = self._expressions, self._shown, len(program.calls) - 1
        for index, (call, wanted) in enumerate(zip(program.calls, branches(program), strict=True)):
            text = expressions.call(call)
            changed = expressions.argument(call.arguments[0]) if call.target in STATEMENTS else ""
            inputs, targets, dead = variables.step(index)
            if call.target in CHOICES and not targets:
                continue  # it only says when its inputs are made
            if wanted != branch or call.inside != self._inside:
                branch = self._enter(branch, wanted, call.inside)
            # Only the readable form has calls inside each other.
            nested = tuple(nested_in(call)) if shown else ()
            line = NodeLine(program.definition, call.node, inputs, True, nested)
            self._statement(text, line, "", f"{targets} = " if targets and not changed else "")
            if changed and targets and targets != changed:
                self._lines.append(f"{self._margin}{targets} = {changed}")
            conditional[targets] = branch
            # What is made for one answer alone cannot be deleted for both.
            dead = [name for name in dead if branch[: len(made := conditional.get(name, ()))] == made]
            if dead and not shown and index < last:
                self._lines.append(f"{self._margin}del {', '.join(dead)}")
        self._enter(branch, (), NOWHERE)
        self._return(program)

    def _return(self, program: Program) -> None:
        values = [result.value for result in program.results]
        if len(values) == 1 and isinstance(values[0], Call):
            line = NodeLine(program.definition, values[0].node, nested=tuple(nested_in(values[0])))
            self._statement(self._expressions.call(values[0]), line, lead="return ")
            return
        texts = tuple(map(self._expressions.argument, values))
        plain = f"return {', '.join(texts)}"
        fits = len(self._margin + plain) <= WIDTH
        self._lines += laid_out(plain if fits else Bracketed("return (", texts), self._margin)

    def _loop(self, program: Program, variables: Variables) -> None:
        """Write the calls of members that do the same one after the other."""
        first, second = program.calls[:2]
        item = unique("layer", set(variables.entries.values()))
        arguments = ", ".join(map(self._expressions.argument, first.arguments))
        last = Ref(first.node, str(first.results[0]))
        name = self._expressions.argument(first.arguments[second.arguments.index(last)])
        self._lines += [
            f"        for {item} in self:",
            f"            {name} = {item}({arguments})",
            f"        return {name}",
        ]

    def _enter(self, branch: Branch, wanted: Branch, inside: Inside) -> Branch:
        """Write the heads of the statements that are only made for some answers, and of those that run inside contexts."""
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(branch, wanted, strict=False)))
        for depth in range(same, len(wanted)):
            condition, answer = wanted[depth]
            asked = "self.training" if condition is None else self._expressions.argument(condition)
            # After an else there is no other: what takes turns asks again.
            is_else = depth == same < len(branch) and branch[depth][0] == condition and depth not in self._elses
            self._elses = {each for each in self._elses if each < depth} | ({depth} if is_else else set())
            head = "else:" if is_else else f"if {'' if answer else 'not '}{asked}:"
            self._lines.append(f"        {INDENT * depth}{head}")
        margin = f"        {INDENT * len(wanted)}"
        if inside and (inside != self._inside or wanted != branch):
            self._expressions.used.add("torch")
            contexts = context_calls(inside)
            plain = f"with {', '.join(map(str, contexts))}:"
            fits = len(margin + plain) <= WIDTH
            self._lines += laid_out(plain if fits else Bracketed("with (", contexts, "):"), margin)
        self._inside = inside
        self._margin = margin + INDENT if inside else margin
        return wanted

    def _returned(self, program: Program) -> str:
        if not all(result.tensor for result in program.results):
            return ""
        self._expressions.used.add("torch")
        count = len(program.results)
        kinds = ["torch.Tensor | None" if result.optional else "torch.Tensor" for result in program.results]
        each = ", ".join(kinds if count < _MANY or len(set(kinds)) > 1 else ["torch.Tensor", "..."])
        return f" -> {each}" if count == 1 else f" -> tuple[{each}]"

    def _statement(self, text: Text, line: NodeLine, said: str = "", lead: str = "", plain: str = "") -> None:
        """Append a statement with its comment and the start of its first line; `plain` is it on one line, if known."""
        if self._comments and line.calls and not said:
            said = self._comments.get((line.definition, line.node), "")
        if not said and len(whole := f"{self._margin}{lead}{plain or text}") <= WIDTH:  # what most are
            self._lines.append(whole)
            self._map[len(self._lines)] = line
            return
        first = len(self._lines) + 1
        self._lines += laid_out(text, self._margin, said, lead)
        for number in range(first, len(self._lines) + 1):
            self._map[number] = line
