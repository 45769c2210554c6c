import type { Model } from "./model";

const ENDINGS = ["restarting", "autorestarting", "terminating", "dead"];

/**
 * Calls `doubt` when the host hints that the kernel which holds the document may have gone: it was restarted, died,
 * or another was chosen; calls `reconnected` when messages may have been lost, and come through again. Where the host
 * gives no hint, only the silence after a request tells.
 */
export function watchKernel(model: Model, doubt: () => void, reconnected: () => void): () => void {
  const kernel = model.widget_manager?.kernel;
  const onStatus = (_: unknown, status: string) => {
    if (ENDINGS.includes(status)) doubt();
  };
  const onConnection = (_: unknown, status: string) => {
    if (status === "connected") reconnected();
  };
  // ipywidgets says so of every model when its kernel restarts.
  model.on("comm_live_update", doubt);
  kernel?.statusChanged?.connect(onStatus);
  kernel?.connectionStatusChanged?.connect(onConnection);
  kernel?.disposed?.connect(doubt);
  return () => {
    model.off("comm_live_update", doubt);
    kernel?.statusChanged?.disconnect(onStatus);
    kernel?.connectionStatusChanged?.disconnect(onConnection);
    kernel?.disposed?.disconnect(doubt);
  };
}

/** Whether the kernel lives, as it says itself, however busy it is; never settled where it says nothing. */
export async function heartbeat(model: Model): Promise<boolean> {
  const kernel = model.widget_manager?.kernel;
  if (!kernel?.supportsSubshells || !kernel.requestListSubshell) return false;
  try {
    await kernel.requestListSubshell({}).done;
    return true;
  } catch {
    return false; // it was restarted, or the connection is gone
  }
}
