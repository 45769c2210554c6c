import { type ChangeEvent, useEffect, useState } from "react";
import { FRAME_COLOURS, type Frame } from "../../protocol";
import { useEditor } from "../commands/context";
import { changeFrame, fitFrame, frameLabel } from "../commands/framing";
import { whyNotFrame } from "../document/frame";
import { Reason } from "../fields/Reason";

/** What can be said of the one selected frame: its words and its colour. */
export function FrameForm({ frame }: { frame: Frame }) {
  const editor = useEditor();
  const { name, colour = "grey" } = frame;
  return (
    <div className="pnne-frame-form">
      <header>
        <Words frame={frame} field="title" />
        <div className="pnne-type-line">
          <span>{frameLabel(editor, name).replace(/^Frame [^,]*,? ?/, "") || "Frame"}</span>
        </div>
      </header>
      <div className="pnne-fields">
        <Words frame={frame} field="text" />
        <fieldset className="pnne-colours" aria-label="Colour">
          {FRAME_COLOURS.map((choice) => (
            <label key={choice} title={choice} className={`pnne-frame-${choice}`}>
              <input
                type="radio"
                name={`colour of ${name}`}
                aria-label={choice}
                checked={choice === colour}
                onChange={() => changeFrame(editor, name, { colour: choice })}
              />
            </label>
          ))}
        </fieldset>
        <button type="button" className="pnne-fix" onClick={() => fitFrame(editor, name)}>
          Fit to its nodes
        </button>
        <p className="pnne-hint">
          Drag the title to move it with what stands in it; arrow keys move, Ctrl + arrow keys resize.
        </p>
      </div>
    </div>
  );
}

function Words({ frame, field }: { frame: Frame; field: "title" | "text" }) {
  const editor = useEditor();
  const label = field === "title" ? "Title" : "Text";
  const value = frame[field] ?? "";
  const [words, setWords] = useState(value);
  useEffect(() => setWords(value), [value]);
  const reason = whyNotFrame({ ...frame, [field]: words });
  const commit = () => {
    if (reason) setWords(value);
    else if (words !== value) changeFrame(editor, frame.name, { [field]: words });
  };
  const shared = {
    "aria-label": label,
    placeholder: label,
    value: words,
    "aria-invalid": reason !== null,
    onBlur: commit,
    "data-property": `${frame.name}.${field}`,
    onChange: (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement>) => setWords(event.target.value),
  };
  return (
    <>
      {field === "title" ? (
        <input
          className="pnne-name"
          {...shared}
          onKeyDown={(event) => {
            if (event.key === "Enter") commit();
            else if (event.key === "Escape") setWords(value);
            else return;
            event.stopPropagation();
          }}
        />
      ) : (
        <textarea className="pnne-note" rows={5} {...shared} />
      )}
      <Reason text={reason} />
    </>
  );
}
