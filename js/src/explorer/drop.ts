/** Bytes of the largest file that is sent: a server's messages have a limit. */
const LARGEST = 8_000_000;

/** Reports a file or a text that is dropped on an element, with its content, or without if it cannot be sent. */
export function listenToDrops(
  place: HTMLElement,
  take: (name: string, content: ArrayBuffer[]) => void,
  signal: AbortSignal,
): void {
  const over = (event: DragEvent) => {
    if (!event.dataTransfer) return;
    event.preventDefault();
    event.stopPropagation(); // JupyterLab would copy the file into its folder
    place.classList.toggle("pnne-over", event.type === "dragover");
    if (event.type !== "drop") return;
    const file = event.dataTransfer.files[0];
    const given = file ?? new File([event.dataTransfer.getData("text/plain")], "text.txt");
    const read = given.size > LARGEST ? Promise.reject(new Error("too large")) : given.arrayBuffer();
    read.then(
      (content) => take(given.name, [content]),
      () => take(given.name, []),
    );
  };
  for (const kind of ["dragover", "dragleave", "drop"] as const) place.addEventListener(kind, over, { signal });
}
