// One user-visible change per file in changes/: its kind and a sentence a user understands.
//
//   kind: added
//
//   A sentence.

export const CHANGE_KINDS = ["added", "changed", "deprecated", "removed", "fixed", "security"] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

export interface Change {
  readonly kind: ChangeKind;
  readonly text: string;
}

/** Throws with the reason when the file is not as described above. */
export function parseChange(source: string): Change {
  const match = /^kind: (\w+)\n\n([\s\S]+)$/.exec(source.trim());
  if (match === null) throw new Error('must begin with "kind: added" and an empty line');
  const kind = CHANGE_KINDS.find((known) => known === match[1]);
  if (kind === undefined) throw new Error(`kind must be one of ${CHANGE_KINDS.join(", ")}`);
  const text = (match[2] ?? "").trim();
  if (/\n\s*\n/.test(text)) throw new Error("must be one paragraph");
  if (!/[.!]$/.test(text)) throw new Error("must end as a sentence does");
  return { kind, text: text.replaceAll(/\s*\n\s*/g, " ") };
}

/** A section of Keep a Changelog (https://keepachangelog.com). */
export function releaseSection(version: string, date: string, changes: readonly Change[]): string {
  const parts = CHANGE_KINDS.flatMap((kind) => {
    const texts = changes.filter((change) => change.kind === kind).map(({ text }) => `- ${text}`);
    if (texts.length === 0) return [];
    return [`### ${kind.charAt(0).toUpperCase()}${kind.slice(1)}`, "", ...texts, ""];
  });
  return [`## [${version}] - ${date}`, "", ...parts].join("\n");
}

/** The changelog with the section below "Unreleased". */
export function foldInto(changelog: string, section: string): string {
  const heading = "## [Unreleased]\n";
  const at = changelog.indexOf(heading);
  if (at < 0) throw new Error('the changelog has no "## [Unreleased]" heading');
  const end = at + heading.length;
  return `${changelog.slice(0, end)}\n${section.trimEnd()}\n${changelog.slice(end)}`;
}
