import type { Model } from "../session/model";

const VIEW = "application/vnd.jupyter.widget-view+json";

/**
 * Runs code in the cell below the one that shows a widget: in a new cell, unless that has the code already. Returns
 * whether the host lends its notebook to widgets, as JupyterLab and Notebook 7 do.
 */
export function runBelow(model: Model, widget: string, code: string): boolean {
  const { kernel, context } = model.widget_manager ?? {};
  const notebook = context?.model;
  const cells = notebook?.sharedModel?.cells ?? [];
  const shows = (output: { data?: Record<string, unknown> }) =>
    (output.data?.[VIEW] as { model_id?: string } | undefined)?.model_id === widget;
  const place = cells.findIndex((cell) => cell.getOutputs?.().some(shows)) + 1;
  if (!notebook?.sharedModel || !kernel?.requestExecute || place === 0) return false;
  if (cells[place]?.getSource() !== code)
    notebook.sharedModel.insertCell(place, { cell_type: "code", source: code, metadata: { trusted: true } });
  const cell = notebook.cells.get(place);
  const { outputs } = cell;
  // Where the outputs stand that are drawn anew under a name of theirs, such as the picture that the file keeps.
  const named = new Map<string, number>();
  kernel.requestExecute({ code }, false, { cellId: cell.id }).onIOPub = ({ header: { msg_type }, content }) => {
    const { transient, execution_count, ...output } = content;
    const name = transient?.display_id ?? "";
    const known = named.get(name);
    if (msg_type === "execute_input") {
      cell.executionCount = execution_count ?? null;
      outputs.clear();
    } else if (msg_type === "update_display_data") {
      if (known !== undefined) outputs.set(known, { ...output, output_type: "display_data" });
    } else if (/^(display_data|execute_result|stream|error)$/.test(msg_type)) {
      const count = outputs.add({ ...output, output_type: msg_type, execution_count });
      if (name) named.set(name, count - 1);
    }
  };
  return true;
}
