import type { MouseEvent, ReactNode } from "react";

interface ActionProps {
  name: string;
  hint?: string;
  /** The path of its icon, in 16 × 16 pixels. */
  icon: string;
  onClick: (event: MouseEvent) => void;
  disabled?: boolean;
  pressed?: boolean;
  children?: ReactNode;
}

/** A button that shows an icon, and says in its title what it does. */
export function Action({ name, hint = name, icon, onClick, disabled = false, pressed, children }: ActionProps) {
  return (
    <button
      type="button"
      className="pnne-action"
      aria-label={name}
      title={hint}
      disabled={disabled}
      aria-pressed={pressed}
      onClick={onClick}
    >
      <Icon path={icon} />
      {children}
    </button>
  );
}

export function Icon({ path }: { path: string }) {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <path d={path} />
    </svg>
  );
}
