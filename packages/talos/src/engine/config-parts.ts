// A configuration taken apart: versions of Kubernetes are changed in an order of their own, so they are told apart from
// the rest; and two configurations compared, without showing what is secret.
import { createHash } from "node:crypto";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import { parseConfig } from "../config/config-text.ts";
import type { ConfigDocument, Value } from "../config/document.ts";
import { shownChange } from "../config/shown-value.ts";
import type { SeenChange, SeenConfig } from "./world.ts";

const KUBELET = /^(.*\/kubelet:)v(\d[^@]*)$/;
const COMPONENT = /^(.*\/kube-(?:apiserver|controller-manager|scheduler|proxy):)v(\d[^@]*)$/;
const MOST_SHOWN = 20;

export function configParts(documents: readonly ConfigDocument[]): SeenConfig {
  let kubelet: string | undefined;
  let components: string | undefined;
  const rest = documents.map((document) =>
    mapTexts(document, (text) => {
      const [, image, version] = KUBELET.exec(text) ?? [];
      if (image !== undefined) {
        kubelet = version;
        return image;
      }
      const [, component, of] = COMPONENT.exec(text) ?? [];
      if (component === undefined) return text;
      components = of;
      return component;
    }),
  );
  const digest = createHash("sha256").update(canonicalJson(rest)).digest("hex");
  return { rest: digest, kubelet, components: isControlPlane(documents) ? components : undefined };
}

export interface ReadConfig {
  readonly documents: readonly ConfigDocument[];
  readonly parts: SeenConfig;
}

/** Remembers what it read last of each machine: configurations are looked at often and change rarely. */
export class ConfigReader {
  readonly #changes = new Map<
    string,
    { readonly text: string | undefined; readonly wanted: ReadConfig; readonly change: SeenChange }
  >();
  readonly #last = new Map<string, { readonly text: string; readonly read: ReadConfig }>();

  read(name: string, text: string): ReadConfig {
    const known = this.#last.get(name);
    if (known?.text === text) return known.read;
    const documents = parseConfig(text, `the configuration of ${name}`);
    const read = { documents, parts: configParts(documents) };
    this.#last.set(name, { text, read });
    return read;
  }

  /** What the machine said about a change of what it has now; it would say the same again. */
  async change(name: string, wanted: ReadConfig, ask: () => Promise<SeenChange>): Promise<SeenChange> {
    const text = this.#last.get(name)?.text;
    const known = this.#changes.get(name);
    if (known !== undefined && known.text === text && known.wanted === wanted) return known.change;
    const change = await ask();
    this.#changes.set(name, { text, wanted, change });
    return change;
  }
}

/** The configuration with other versions of Kubernetes. */
export function withVersions(
  documents: readonly ConfigDocument[],
  { kubelet, components }: Pick<SeenConfig, "kubelet" | "components">,
): readonly ConfigDocument[] {
  return documents.map(
    (document) =>
      mapTexts(document, (text) => {
        const image = KUBELET.exec(text)?.[1];
        if (image !== undefined && kubelet !== undefined) return `${image}v${kubelet}`;
        const component = COMPONENT.exec(text)?.[1];
        return component === undefined || components === undefined ? text : `${component}v${components}`;
      }) as ConfigDocument,
  );
}

/** "machine.sysctls.x: 1 -> 2"; of secrets only that they differ. */
export function configDifferences(
  from: readonly ConfigDocument[],
  to: readonly ConfigDocument[],
): readonly string[] {
  const [old, next] = [flat(from), flat(to)];
  const paths = [...new Set([...old.keys(), ...next.keys()])].filter(
    (path) => old.get(path) !== next.get(path),
  );
  const shown = paths
    .slice(0, MOST_SHOWN)
    .map((path) => `${path}: ${shownChange(path, old.get(path), next.get(path))}`);
  return paths.length > MOST_SHOWN ? [...shown, `and ${paths.length - MOST_SHOWN} more`] : shown;
}

function isControlPlane(documents: readonly ConfigDocument[]): boolean {
  return documents.some((document) => {
    const machine = document["machine"] as Readonly<Record<string, Value>> | undefined;
    return machine?.["type"] === "controlplane";
  });
}

function mapTexts(value: Value, change: (text: string) => string): Value {
  if (typeof value === "string") return change(value);
  if (Array.isArray(value)) return value.map((item: Value) => mapTexts(item, change));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, mapTexts(item as Value, change)]),
  );
}

/** Values by their path; documents that have a kind begin with it. */
function flat(documents: readonly ConfigDocument[]): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const walk = (value: Value, path: string): void => {
    if (typeof value !== "object" || value === null) {
      found.set(path, String(value));
      return;
    }
    const entries = Object.entries(value);
    if (entries.length === 0) found.set(path, Array.isArray(value) ? "[]" : "{}");
    for (const [key, item] of entries) walk(item as Value, path === "" ? key : `${path}.${key}`);
  };
  for (const document of documents) {
    const name = [document["kind"], document["name"]].filter((part) => typeof part === "string").join("/");
    walk(document, name);
  }
  return found;
}
