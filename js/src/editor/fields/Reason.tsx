/** Why what was typed is refused; nothing where it is not. */
export function Reason({ text, id }: { text: string | null; id?: string }) {
  if (!text) return null;
  return (
    <p className="pnne-reason" id={id} role="alert">
      {text}
    </p>
  );
}
