import { useEditor, useSession } from "../commands/context";

/** Refused changes, with Python's reason. */
export function Toasts() {
  const editor = useEditor();
  const notices = useSession((state) => state.notices);
  return (
    <div className="pnne-toasts" role="alert">
      {notices.map((notice) => (
        <div className={`pnne-toast${notice.offer ? " pnne-offer" : ""}`} key={notice.id}>
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
          {notice.offer && (
            <button
              type="button"
              className="pnne-fix"
              onClick={() => {
                notice.offer?.run();
                editor.session.dismiss(notice.id);
              }}
            >
              {notice.offer.label}
            </button>
          )}
          <button type="button" aria-label="Dismiss" onClick={() => editor.session.dismiss(notice.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
