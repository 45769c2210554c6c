import type { Graph } from "./document";

export const MAX_NAME_LENGTH = 100;

/** Attributes of `nn.Module`, Python's keywords, and names that generated source uses; a test compares with Python. */
export const RESERVED: ReadonlySet<string> = new Set(
  `T_destination _apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
  _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
  _get_backward_hooks _get_backward_pre_hooks _get_name _is_full_backward_hook _load_from_state_dict
  _load_state_dict_post_hooks _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules
  _named_members _non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook
  _register_state_dict_hook _replicate_for_data_parallel _save_to_state_dict _slow_forward _state_dict_hooks
  _state_dict_pre_hooks _version _wrapped_call_impl add_module apply bfloat16 buffers call_super_init children
  compile cpu cuda double dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter
  get_submodule half ipu load_state_dict modules mtia named_buffers named_children named_modules
  named_parameters parameters register_backward_hook register_buffer register_forward_hook
  register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
  register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module register_parameter
  register_state_dict_post_hook register_state_dict_pre_hook requires_grad_ set_extra_state set_submodule
  share_memory state_dict to to_empty train training type xpu zero_grad
  False None True and as assert async await break class continue def del elif else except finally for from global
  if import in is lambda nonlocal not or pass raise return try while with yield
  self torch nn F`.split(/\s+/),
);

/** Why a text is no name that a node or a definition can have, or null; mirrors `check_name` in Python. */
export function whyIllegal(name: string): string | null {
  if (name === "") return "A name is needed.";
  if (!/^[A-Za-z0-9_]+$/.test(name))
    return "Use letters, digits and underscores only: it becomes an attribute in Python.";
  if (name.length > MAX_NAME_LENGTH) return `A name has at most ${MAX_NAME_LENGTH} characters.`;
  return null;
}

/** As `whyIllegal`, with the names that mean something already. */
export function whyReserved(name: string): string | null {
  const reason = whyIllegal(name);
  if (reason) return reason;
  if (RESERVED.has(name) || name.startsWith("__")) {
    return `${name} means something in Python or in an nn.Module; try ${name.replace(/^_+|_+$/g, "")}1.`;
  }
  return null;
}

/** Why `name` cannot be the new name of `current`, or null. */
export function whyNotName(graph: Graph, current: string, name: string): string | null {
  if (name === current) return null;
  return (
    whyReserved(name) ??
    (graph.nodes.has(name) ? `There is already a node ${name}; ${freeIdentifier(name, graph.nodes)} is free.` : null)
  );
}

/** The lower-case name that nodes of a type are numbered under; mirrors `stem_of` in Python. */
export function stemOf(type: string): string {
  const acronyms = type.replace(
    /(PRe|RRe|Re|Si)LU/g,
    (word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase(),
  );
  const words = acronyms.replace(/(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/g, "_");
  const stem = words
    .toLowerCase()
    .replace(/[^a-z0-9_]/g, "_")
    .slice(0, MAX_NAME_LENGTH - 10);
  return /\d$/.test(stem) ? `${stem}_` : stem || "node";
}

/** The default name of a new node: its stem and the smallest number that is free. */
export function freeName(type: string, taken: { has(name: string): boolean }): string {
  const stem = stemOf(type).replace(/^__+/, "");
  let number = 1;
  while (taken.has(`${stem}${number}`) || RESERVED.has(`${stem}${number}`)) number += 1;
  return `${stem}${number}`;
}

/** `name` itself if it is free, else with the smallest number that makes it so. */
export function freeIdentifier(name: string, taken: { has(name: string): boolean }): string {
  if (!taken.has(name) && whyReserved(name) === null) return name;
  const stem = /\d$/.test(name) ? `${name}_` : name;
  let number = 2;
  while (taken.has(`${stem}${number}`)) number += 1;
  return `${stem}${number}`;
}
