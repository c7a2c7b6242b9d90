// Which way versions may go: one minor at a time, and not back.
export interface Version {
  readonly minor: number;
  readonly patch: number;
}

/** "v1.13.9" or "1.13.9"; only versions of one major are compared. */
export function versionOf(text: string): Version {
  const [, minor = "0", patch = "0"] = /^v?\d+\.(\d+)\.(\d+)/.exec(text) ?? [];
  return { minor: Number(minor), patch: Number(patch) };
}

/** Whether a machine installs a system and pulls images when told so, apart from the boot that changes to it. */
export const hasLifecycle = (talos: string): boolean => versionOf(talos).minor >= 13;

/** Why not; undefined: it may. */
export function refusesUpgrade(from: string, to: string): string | undefined {
  const [old, next] = [versionOf(from), versionOf(to)];
  if (next.minor > old.minor + 1) return `${from} to ${to} skips minors; go through 1.${old.minor + 1} first`;
  return next.minor < old.minor ? `${from} to ${to} goes back a minor` : undefined;
}
