import { useEditor, useSession } from "../context";

/** Refused changes, with Python's reason. */
export function Toasts() {
  const editor = useEditor();
  const notices = useSession((state) => state.notices);
  return (
    <div className="pnne-toasts" role="alert">
      {notices.map((notice) => (
        <div className="pnne-toast" key={notice.id}>
          <div>
            <p>{notice.text}</p>
            {notice.diagnostics
              .filter((diagnostic) => !notice.text.includes(diagnostic.message))
              .map((diagnostic) => (
                <p key={`${diagnostic.node} ${diagnostic.message}`}>
                  {diagnostic.message} {diagnostic.hint}
                </p>
              ))}
          </div>
          <button type="button" aria-label="Dismiss" onClick={() => editor.session.dismiss(notice.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
